"""Datasets in the files of others: Minari, D4RL's HDF5, npz, Parquet.

Such a file is read by a process of its own (`reader_process`), for HDF5 and Arrow are much C and C++
that may crash, allocate or loop on bytes that somebody made; what it sends is checked again
(`reader_client`). No pickle is read, no link to another file is followed, no environment is made of what a
file says of one.
"""
