"""The stored records: jobs, results, figures, events, samples, evidence, checks."""
