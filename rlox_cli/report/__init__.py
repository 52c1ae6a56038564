"""Reports: a page, figures and tables, made from the logs of runs alone."""
