"""Datasets in other formats: Minari, D4RL's HDF5, npz, Parquet.

A separate process (`reader_process`) reads such a file, because the C and C++ code of HDF5 and Arrow may
crash, allocate without limit or loop on a malicious file; `reader_client` checks the data again. No pickle
is read, no link to another file is followed, and no environment is made from a file's metadata.
"""
