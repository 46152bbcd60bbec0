"""What is written down: jobs, results, figures, events, samples, evidence, checks."""
