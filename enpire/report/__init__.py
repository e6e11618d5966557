"""The page that says at the end what a campaign did and cost."""
