"""The report of a campaign: results, cost and checks."""
