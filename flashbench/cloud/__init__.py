"""One job on an unattended machine, rented by SkyPilot or reached by ssh."""
