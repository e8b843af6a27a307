// What each fact does to the metrics. Counters are of the whole run, since a restarted server
// counts the facts of its earlier lives again.
#include <type_traits>

#include "fedserver/telemetry/recorder.h"

namespace fedqueue {
namespace {

constexpr const char* states[] = {"idle", "queued", "training", "failed"};

struct Counter {
  Metrics& metrics;

  void state(const FacilityId& facility, std::string_view now) const {
    for (const char* one : states) {
      metrics.set("fedqueue_client_state", now == one ? 1 : 0,
                  {{"client", facility.str()}, {"state", one}});
    }
  }
  void operator()(const RunOpened& fact) const { version(fact.initial); }
  void operator()(const FacilityJoined& fact) const { state(fact.facility, "idle"); }
  void operator()(const PlanGiven& fact) const {
    state(fact.facility, "queued");
    if (fact.plan.predicted_wait_s) {
      metrics.set("fedqueue_queue_estimate_seconds", *fact.plan.predicted_wait_s,
                  {{"client", fact.facility.str()}});
    }
  }
  void operator()(const AttemptStarted& fact) const {
    state(fact.facility, "training");
    if (const auto& wait = fact.registration.queue.queue_wait_s) {
      metrics.set("fedqueue_queue_wait_seconds", *wait, {{"client", fact.facility.str()}});
    }
  }
  void operator()(const AttemptEnded& fact) const {
    state(fact.facility, fact.failed ? "failed" : "idle");
  }
  void operator()(const UpdateDecided& fact) const {
    const bool rejected = fact.answer.disposition == Disposition::rejected;
    const char* outcome = rejected ? "rejected" : fact.answer.late ? "late" : "admitted";
    metrics.add("fedqueue_updates_total", 1,
                {{"client", fact.facility.str()}, {"outcome", outcome}});
    if (rejected) {
      metrics.add("fedqueue_updates_rejected_total", 1, {{"reason", code_name(fact.answer.code)}});
    }
  }
  void operator()(const ReduceStarted& fact) const {
    for (const ReduceInput& input : fact.updates) {
      const std::string& client = input.facility.str();
      metrics.set("fedqueue_weight", input.weight, {{"client", client}});
      metrics.set("fedqueue_staleness", static_cast<double>(input.staleness), {{"client", client}});
    }
  }
  void operator()(const Published& fact) const { version(fact.model); }
  void operator()(const EvaluationRecorded& fact) const {
    metrics.set("fedqueue_accuracy", fact.evaluation.accuracy);
    metrics.set("fedqueue_loss", fact.evaluation.loss);
  }
  void operator()(const RoundTimedOut& /*fact*/) const {
    metrics.add("fedqueue_empty_timers_total");
  }
  void operator()(const ReduceStalled& /*fact*/) const {
    metrics.add("fedqueue_reduce_failures_total");
  }
  template <typename Other>
  void operator()(const Other& /*fact*/) const {}

  void version(const ModelRecord& model) const {
    metrics.set("fedqueue_version", static_cast<double>(model.version));
    metrics.set("fedqueue_round", static_cast<double>(model.version + 1));
    metrics.set("fedqueue_model_bytes", static_cast<double>(model.bytes));
  }
};

}  // namespace

void describe_run_metrics(Metrics& metrics) {
  using Kind = Metrics::Kind;
  metrics.describe("fedqueue_round", Kind::gauge, "The open round.");
  metrics.describe("fedqueue_version", Kind::gauge, "The newest published version.");
  metrics.describe("fedqueue_model_bytes", Kind::gauge, "Size of the newest model.");
  metrics.describe("fedqueue_updates_total", Kind::counter, "Updates by facility and outcome.");
  metrics.describe("fedqueue_updates_rejected_total", Kind::counter, "Rejected updates by reason.");
  metrics.describe("fedqueue_staleness", Kind::gauge,
                   "Versions between base and use of the newest counted update.");
  metrics.describe("fedqueue_weight", Kind::gauge, "Weight of the newest counted update.");
  metrics.describe("fedqueue_queue_wait_seconds", Kind::gauge, "Queue wait of the newest job.");
  metrics.describe("fedqueue_queue_estimate_seconds", Kind::gauge,
                   "Queue wait that was predicted for the newest plan.");
  metrics.describe("fedqueue_client_state", Kind::gauge, "1 for the state a facility is in.");
  metrics.describe("fedqueue_aggregate_seconds", Kind::gauge,
                   "From closing the newest round to its model.");
  metrics.describe("fedqueue_accuracy", Kind::gauge, "Newest evaluation.");
  metrics.describe("fedqueue_loss", Kind::gauge, "Newest evaluation.");
  metrics.describe("fedqueue_empty_timers_total", Kind::counter,
                   "Round timers that fired with too few updates.");
  metrics.describe("fedqueue_reduce_failures_total", Kind::counter, "Failed reductions.");
  metrics.describe("fedqueue_records_lost_total", Kind::counter,
                   "Rows of the metrics files that could not be written.");
  metrics.describe("process_resident_memory_bytes", Kind::gauge, "Resident memory.");
  metrics.before_rendering(
      [](Metrics& all) { all.set("process_resident_memory_bytes", resident_memory_bytes()); });
}

void count_fact(Metrics& metrics, const Fact& fact) { std::visit(Counter{metrics}, fact); }

}  // namespace fedqueue
