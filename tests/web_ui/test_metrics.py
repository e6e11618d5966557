"""The figures that Prometheus scrapes."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.web_ui.conftest import Site


def test_prometheus_reads_the_figures_of_the_fleet_and_the_campaign(site: Site) -> None:
    assert site.client.get("/metrics").status_code == 401
    answer = site.enter("viewer").get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found = {family.name: family for family in text_string_to_metric_families(answer.text)}
    view = site.client.get(f"/api/v1/campaigns/{site.campaign_id}").json()
    orders = {sample.labels["outcome"]: sample.value for sample in found["enpire_orders"].samples}
    assert sum(orders.values()) == view["episodes"]["total"]
    phases = found["enpire_station_phase"].samples
    stations = {sample.labels["station"] for sample in phases}
    assert stations
    for name in stations:
        assert sum(sample.value for sample in phases if sample.labels["station"] == name) == 1
    rates = [s.value for s in found["enpire_success_ratio"].samples if s.labels["of"] == "champion"]
    assert rates
    assert all(0 <= value <= 1 for value in rates)
    assert found["enpire_lab_connected"].samples[0].value == 1
    for name, value in (
        ("robot_utilisation_ratio", view["mru"]), ("robot_motion_ratio", view.get("motion")),
        ("real_time_factor", view.get("real_time_factor")), ("rollouts_used_ratio", view["rollouts_used"]["share"]),
    ):  # fmt: skip
        assert [sample.value for sample in found[f"enpire_{name}"].samples] == ([] if value is None else [value])
