"""The same job, each as its library's documentation would have it. Settings come from the environment."""
