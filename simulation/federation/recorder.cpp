#include "simulation/federation/recorder.h"

#include <algorithm>
#include <variant>

#include "core/base/text.h"

namespace fedqueue::simulation {
namespace {

std::int64_t number_of(const std::string& job) { return parse_integer(job).value_or(0); }

std::string job_of(const AttemptId& attempt) {
  const Result<AttemptParts> parts = parse_attempt_id(attempt.str());
  return parts ? parts->job_id : attempt.str();
}

}  // namespace

Recorder::Recorder(std::map<FacilityId, int> facilities, std::int64_t nodes_per_job, Bytes initial,
                   std::size_t models_kept)
    : facilities_(std::move(facilities)),
      nodes_(static_cast<double>(nodes_per_job)),
      models_{std::move(initial)},
      models_kept_(models_kept) {}

double Recorder::now_s() const { return to_seconds(clock_->now().time_since_epoch()); }

void Recorder::add_span(const FacilityId& facility, std::int64_t job, Activity activity,
                        double begin_s, double end_s) {
  if (end_s <= begin_s) return;
  counts_.spans.push_back({facilities_.at(facility), job, activity, begin_s, end_s});
}

void Recorder::change(const FacilityId& facility, const AttemptId& attempt, Activity activity,
                      double at_s) {
  const auto found = running_.find({facility, attempt});
  if (found == running_.end()) return;
  Running& running = found->second;
  if (running.activity == activity) return;
  add_span(facility, running.job, running.activity, running.since_s, at_s);
  running.activity = activity;
  running.since_s = at_s;
}

void Recorder::trained(const LocalTask& task) {
  const double began_s = to_seconds(task.began.time_since_epoch());
  change(task.facility, task.attempt, Activity::training, began_s);
  change(task.facility, task.attempt, Activity::transferring, now_s());
  counts_.steps_run += task.steps;
  counts_.training_seconds += nodes_ * static_cast<double>(task.steps) * task.step_s;
}

void Recorder::on_fact(const JournalRow&, const Fact& fact, const Engine&) {
  if (const auto* decided = std::get_if<UpdateDecided>(&fact)) note(*decided);
  if (const auto* started = std::get_if<ReduceStarted>(&fact)) note(*started);
  if (const auto* dropped = std::get_if<UpdatesDropped>(&fact))
    counts_.updates_dropped += static_cast<std::int64_t>(dropped->ids.size());
  if (const auto* published = std::get_if<Published>(&fact)) {
    version_ = published->model.version;
    models_.push_back(std::move(next_model_));
    if (models_.size() > models_kept_) models_.pop_front();
    next_model_.clear();
    ++counts_.versions;
  }
  if (const auto* finished = std::get_if<RunFinished>(&fact)) finished_ = finished->reason;
}

void Recorder::note(const UpdateDecided& fact) {
  counts_.bytes_up += static_cast<std::int64_t>(fact.bytes);
  if (fact.answer.late) ++counts_.updates_late;
  if (fact.answer.disposition == Disposition::rejected) ++counts_.updates_dropped;
  train_seconds_[fact.answer.id] = fact.metadata.train_seconds;
  // What follows is waiting for the server's word, not for bytes.
  change(fact.facility, fact.attempt, Activity::idle, now_s());
}

void Recorder::note(const ReduceStarted& fact) {
  for (const ReduceInput& input : fact.updates) {
    ++counts_.updates_counted;
    ++counts_.staleness[input.staleness];
    const auto trained = train_seconds_.find(input.id);
    if (trained == train_seconds_.end()) continue;
    useful_node_seconds_ += nodes_ * trained->second;
    train_seconds_.erase(trained);
  }
}

void Recorder::on_reduced(const StartReduce&, const Bytes&, const std::vector<SharedBytes>&,
                          const std::vector<SharedBytes>&, const Bytes& model) {
  next_model_ = model;
}

void Recorder::on_job_submitted(const FacilityId& facility, const std::string&,
                                const std::string& job) {
  submitted_s_[{facility, job}] = now_s();
  ++counts_.jobs;
}

void Recorder::on_job_over(const FacilityId&, const std::string&, const std::string& state) {
  if (state == "FAILED" || state == "PREEMPTED" || state == "NODE_FAIL") ++counts_.jobs_failed;
}

void Recorder::on_process_started(const FacilityId& facility, const AttemptId& attempt) {
  const std::string job = job_of(attempt);
  Running running;
  running.began_s = running.since_s = now_s();
  running.job = number_of(job);
  if (const auto submitted = submitted_s_.find({facility, job}); submitted != submitted_s_.end()) {
    counts_.queue_waits_s.push_back(now_s() - submitted->second);
    add_span(facility, running.job, Activity::waiting, submitted->second, now_s());
    submitted_s_.erase(submitted);
  }
  running_[{facility, attempt}] = running;
}

void Recorder::on_process_ended(const FacilityId& facility, const AttemptId& attempt,
                                const Session*) {
  const auto found = running_.find({facility, attempt});
  if (found == running_.end()) return;
  const Running& running = found->second;
  add_span(facility, running.job, running.activity, running.since_s, now_s());
  counts_.node_seconds_used += nodes_ * (now_s() - running.began_s);
  running_.erase(found);
}

void Recorder::on_session_sends(const FacilityId& facility, const Session& session,
                                Request::Kind kind) {
  const AttemptId& attempt = session.settings().registration.attempt;
  if (kind == Request::Kind::model)
    counts_.bytes_down += static_cast<std::int64_t>(models_.back().size());
  if (kind == Request::Kind::enrol || kind == Request::Kind::model || kind == Request::Kind::put)
    change(facility, attempt, Activity::transferring, now_s());
}

double Recorder::node_seconds() const {
  double sum = counts_.node_seconds_used;
  for (const auto& [key, running] : running_) sum += nodes_ * (now_s() - running.began_s);
  return sum;
}

void Recorder::fill(CellResult& result, bool with_spans) {
  CellResult counted = counts_;
  counted.node_seconds_used = node_seconds();
  for (const auto& [key, running] : running_) {
    counted.spans.push_back(
        {facilities_.at(key.first), running.job, running.activity, running.since_s, now_s()});
  }
  for (const auto& [key, at_s] : submitted_s_) {
    counted.spans.push_back(
        {facilities_.at(key.first), number_of(key.second), Activity::waiting, at_s, now_s()});
  }
  counted.node_seconds_wasted = std::max(0.0, counted.node_seconds_used - useful_node_seconds_);
  if (!with_spans) counted.spans.clear();
  counted.key = result.key;
  counted.curve = std::move(result.curve);
  counted.final_accuracy = result.final_accuracy;
  counted.best_accuracy = result.best_accuracy;
  result = std::move(counted);
}

}  // namespace fedqueue::simulation
