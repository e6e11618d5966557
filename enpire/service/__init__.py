"""The one entrance to ENPIRE for the command line, the web pages and the agents. They import no other room.

| module | question |
|---|---|
| `running` | run a campaign, end an interrupted one |
| `processes`, `stations` | enroll a station, open its robot, serve policies, run a training job |
| `code` | check, keep and read the code of candidates |
| `asking` | leave a command, label an episode, send an agent's request |
| `reading` | what is recorded: campaigns, versions, episodes, hypotheses, events |
| `failures` | where a policy fails, and how |
| `auditing` | whether the ledger, its files and its copies hold |
| `backups` | copy a home to one file while a campaign runs, and restore it |
| `decisions` | whether recorded decisions hold, and what another verdict would change |
| `recordings` | the arrays and camera images of one episode |
| `datasets` | files that leave or enter a home: versions, data sets, replays |
| `watching` | what a running lab does now |
| `offline` | train and compare policies without a fleet |

A module re-exports functions and nouns of the rooms below, and adds the few that combine several rooms. Importing one
loads no more than its question needs. An import contract in pyproject.toml holds this.
"""
