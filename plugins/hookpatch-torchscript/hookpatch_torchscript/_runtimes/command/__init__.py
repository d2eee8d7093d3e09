"""Run the command hookpatch runtimes, with a child process for each measurement; torch is not imported."""
