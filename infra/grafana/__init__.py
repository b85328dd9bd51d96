"""The dashboards as code: `python -m infra.grafana` writes their JSON."""
