"""Reports: from the logs of runs alone to a page, figures and tables."""
