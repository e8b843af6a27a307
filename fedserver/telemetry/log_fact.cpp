// The log lines of facts: one per event that users look for.
#include "fedserver/telemetry/recorder.h"

namespace fedqueue {
namespace {

struct Logger {
  const Log& log;

  void operator()(const RunOpened& fact) const {
    log.info("run opened", {{"version", fact.initial.version},
                            {"bytes", fact.initial.bytes},
                            {"sha256", fact.initial.sha256}});
  }
  void operator()(const FacilityJoined& fact) const {
    log.info("facility enrolled", {{"facility", fact.facility}, {"samples", fact.samples}});
  }
  void operator()(const PlanGiven& fact) const {
    log.info("plan given", {{"facility", fact.facility},
                            {"key", fact.plan.key},
                            {"local_steps", fact.plan.local_steps},
                            {"predicted_wait_s", fact.plan.predicted_wait_s.value_or(0)},
                            {"deadline_wait_s", fact.plan.deadline_wait_s}});
  }
  void operator()(const AttemptStarted& fact) const {
    const QueueRecord& queue = fact.registration.queue;
    log.info("job started", {{"facility", fact.facility},
                             {"job", fact.registration.attempt},
                             {"queue_wait_s",
                              queue.queue_wait_s ? std::to_string(*queue.queue_wait_s) : "unknown"},
                             {"ranks", fact.registration.ranks}});
  }
  void operator()(const AttemptRelaunched& fact) const {
    log.info("job started its ranks again", {{"facility", fact.facility}, {"job", fact.attempt}});
  }
  void operator()(const AttemptRelieved& fact) const {
    log.info("job is to finish",
             {{"facility", fact.facility}, {"job", fact.attempt}, {"reason", fact.reason}});
  }
  void operator()(const AttemptFenced& fact) const {
    log.warning("job is fenced off",
                {{"facility", fact.facility}, {"job", fact.attempt}, {"reason", fact.reason}});
  }
  void operator()(const AttemptEnded& fact) const {
    const std::initializer_list<LogField> fields = {{"facility", fact.facility},
                                                    {"job", fact.attempt},
                                                    {"state", fact.state},
                                                    {"detail", fact.detail}};
    if (fact.failed) {
      log.warning("job ended without its update", fields);
    } else {
      log.info("job ended", fields);
    }
  }
  void operator()(const SegmentAssigned& fact) const {
    log.info("segment assigned", {{"facility", fact.facility},
                                  {"job", fact.attempt},
                                  {"segment", fact.segment.index},
                                  {"base", fact.segment.base},
                                  {"local_steps", fact.segment.local_steps},
                                  {"learning_rate", fact.segment.learning_rate}});
  }
  void operator()(const UpdateDecided& fact) const {
    const bool rejected = fact.answer.disposition == Disposition::rejected;
    const std::initializer_list<LogField> fields = {
        {"facility", fact.facility},
        {"job", fact.attempt},
        {"update", fact.answer.id},
        {"outcome", fact.answer.late && !rejected ? "late" : to_text(fact.answer.disposition)},
        {"reason", fact.answer.reason},
        {"bytes", fact.bytes},
        {"steps", fact.metadata.steps_run},
        {"seconds", fact.metadata.train_seconds},
        {"base", fact.metadata.base},
        {"staleness", fact.answer.staleness},
        {"loss", fact.metadata.loss}};
    if (rejected) {
      log.warning("update rejected", fields);
    } else {
      log.info("update received", fields);
    }
  }
  void operator()(const NextDecided& fact) const {
    log.debug("next decided", {{"facility", fact.facility},
                               {"job", fact.attempt},
                               {"update", fact.update},
                               {"next", to_text(fact.next.kind)},
                               {"reason", fact.next.reason}});
  }
  void operator()(const UpdatesDropped& fact) const {
    for (const UpdateId& id : fact.ids) log.warning("update dropped", {{"update", id}});
  }
  void operator()(const RoundTimedOut& fact) const {
    log.info("round timer fired with too few updates",
             {{"round", fact.version + 1}, {"times", fact.times}});
  }
  void operator()(const ReduceStarted& fact) const {
    log.info("round closed", {{"round", fact.input_version + 1},
                              {"cause", fact.cause},
                              {"updates", fact.updates.size()},
                              {"kept", fact.kept_late.size()}});
  }
  void operator()(const ReduceStalled& fact) const {
    log.error(fact.why, {{"round", fact.input_version + 1}});
  }
  void operator()(const Published& fact) const {
    log.info("model saved", {{"version", fact.model.version},
                             {"file", fact.model.file},
                             {"bytes", fact.model.bytes},
                             {"sha256", fact.model.sha256},
                             {"step_norm", fact.step_norm}});
  }
  void operator()(const ModelsPruned& fact) const {
    log.debug("old models removed", {{"below", fact.below}});
  }
  void operator()(const EvaluationRecorded& fact) const {
    log.info("model evaluated", {{"version", fact.evaluation.version},
                                 {"accuracy", fact.evaluation.accuracy},
                                 {"loss", fact.evaluation.loss},
                                 {"samples", fact.evaluation.samples}});
  }
  void operator()(const RunStalled& fact) const {
    log.warning("run stalled; it goes on waiting", {{"reason", fact.reason}});
  }
  void operator()(const RunFinished& fact) const {
    log.info("run finished", {{"reason", fact.reason}});
  }
};

}  // namespace

void log_fact(const Log& log, const Fact& fact) { std::visit(Logger{log}, fact); }

}  // namespace fedqueue
