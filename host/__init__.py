"""What every process stands on: files that last, children that die with us, signals, logs."""
