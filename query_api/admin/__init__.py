"""What the administrator sees of all projects: dead letters, and the status of the installation."""
