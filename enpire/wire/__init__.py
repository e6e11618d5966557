"""What travels between orchestrator, stations and policy servers."""
