"""One job on a machine that nobody watches: rented by SkyPilot, or reached by ssh."""
