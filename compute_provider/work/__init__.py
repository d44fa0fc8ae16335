"""What takes time: workers in a sandbox, who starts them, and measuring the machine."""
