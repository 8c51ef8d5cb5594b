"""Where commands run: on this machine, on a Ray cluster, or as SLURM jobs."""
