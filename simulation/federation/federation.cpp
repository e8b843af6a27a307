#include "simulation/federation/federation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulation/clock/streams.h"
#include "simulation/federation/algebra.h"
#include "simulation/federation/controlled_learner.h"
#include "simulation/federation/queues.h"
#include "simulation/federation/recorder.h"
#include "simulation/world/world.h"

namespace fedqueue::simulation {
namespace {

// The target counts when it is sustained; a run that may stop early stops only then.
constexpr int kSustained = 3;

FacilityId facility_name(int facility) {
  return FacilityId("facility-" + std::to_string(facility + 1));
}

std::map<FacilityId, int> facility_numbers(int count) {
  std::map<FacilityId, int> numbers;
  for (int facility = 0; facility < count; ++facility) numbers[facility_name(facility)] = facility;
  return numbers;
}

// What facilities compute, and how fast: the setting's speeds, the learner's updates.
class TimedTrainer final : public SimTrainer {
 public:
  TimedTrainer(const Setting& setting, std::uint64_t seed, Learner& learner, Recorder& recorder,
               const std::map<FacilityId, int>& numbers)
      : setting_(setting), learner_(learner), recorder_(recorder), numbers_(numbers) {
    for (int facility = 0; facility < setting.facilities; ++facility)
      random_.push_back(stream(seed, "speed", static_cast<std::uint64_t>(facility)));
  }

  double launch_s(const FacilityId& facility) override {
    return value_for(setting_.launch_s, numbers_.at(facility));
  }

  double step_s(const FacilityId& facility, const Segment&) override {
    const int number = numbers_.at(facility);
    return log_normal(random_[static_cast<std::size_t>(number)], value_for(setting_.step_s, number),
                      setting_.step_jitter);
  }

  Result<LocalOutcome> train(const LocalTask& task) override {
    Lesson lesson;
    lesson.facility = numbers_.at(task.facility);
    lesson.steps = task.steps;
    lesson.learning_rate = task.segment.learning_rate;
    lesson.training = task.training;
    Result<Learned> learned = learner_.train(*task.base, lesson);
    if (!learned) {
      if (error_.message.empty()) error_ = learned.error();
      return learned.error();
    }
    recorder_.trained(task);
    return LocalOutcome{std::move(learned->update), learned->loss, learned->samples};
  }

  void settled(const FacilityId& facility, const OwnUpdate& update,
               Disposition disposition) override {
    if (disposition != Disposition::rejected)
      learner_.taken(numbers_.at(facility), *update.content);
  }

  // The first failure of the learner, if there was one.
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  const Setting& setting_;
  Learner& learner_;
  Recorder& recorder_;
  const std::map<FacilityId, int>& numbers_;
  std::vector<Prng> random_;
  Error error_{Code::internal, "", ""};
};

// Times of the product that are made for hours, for rounds of seconds.
AgentSettings agent_settings(const Setting& setting) {
  const Duration poll = from_seconds(setting.poll_s);
  AgentSettings agent;
  agent.poll_interval = poll;
  agent.poll_longest = 10 * poll;
  agent.settle_time = 2 * poll;
  agent.limit_retry = poll;
  agent.limit_retry_longest = 5 * poll;
  agent.failure_retry = poll;
  agent.failure_retry_longest = 5 * poll;
  agent.failures_max = 1000000;
  agent.server = RetryPolicy{poll, 5 * poll, Duration::max()};
  agent.finish_time = poll;
  return agent;
}

FacilitySetup facility_setup(const Setting& setting, int facility) {
  FacilitySetup setup;
  setup.id = facility_name(facility);
  setup.run = RunId("experiment");
  setup.path.latency_s = value_for(setting.latency_s, facility);
  setup.path.up_bytes_per_s = value_for(setting.bandwidth_bytes_per_s, facility);
  setup.path.down_bytes_per_s = setup.path.up_bytes_per_s;
  setup.agent = agent_settings(setting);
  setup.session_retry = RetryPolicy{from_seconds(setting.poll_s), from_seconds(5 * setting.poll_s),
                                    from_seconds(setting.horizon_s)};
  // Enough to finish the step at hand and to send the update.
  setup.session_reserve = from_seconds(
      std::min(setting.job_time_limit_s / 10, 5 * value_for(setting.step_s, facility) + 0.5));
  setup.time_limit_s = setting.job_time_limit_s;
  return setup;
}

ServerSetup server_setup(const Setting& setting, const PolicyConfig& policy, Learner& learner) {
  ServerSetup setup;
  setup.engine.run = "experiment";
  setup.engine.policy = policy;
  setup.engine.job_time_limit_s = setting.job_time_limit_s;
  setup.engine.heartbeat_s = std::max(5 * setting.poll_s, 1.0);
  setup.engine.lease_s = 6 * setup.engine.heartbeat_s;
  setup.engine.contact_timeout_s = setting.horizon_s;  // a long wait is no silence
  setup.engine.plan_retry_s = setting.poll_s;
  setup.engine.empty_timers_max = 1000000;
  setup.engine.models_kept = 20;
  setup.initial = learner.initial();
  for (int facility = 0; facility < setting.facilities; ++facility)
    setup.facilities.emplace_back(facility_name(facility), learner.samples(facility));
  setup.reduce_s = 0.02;
  setup.screen_s = 0.005;
  return setup;
}

class Evaluator {
 public:
  Evaluator(Learner& learner, Recorder& recorder, TensorAlgebra& algebra)
      : learner_(learner), recorder_(recorder), algebra_(algebra) {}

  Result<CurvePoint> at(double at_s) {
    if (evaluated_ != recorder_.version()) {
      const std::deque<Bytes>& models = recorder_.models();
      const Result<Grade> grade =
          learner_.evaluate(models.size() == 1 ? models.back() : algebra_.mean_of(models));
      if (!grade) return grade.error();
      // Finite parameters may yet overflow on the way to a loss.
      if (!std::isfinite(grade->loss))
        return Error{Code::not_finite, "evaluate: the loss is not a finite number", ""};
      grade_ = *grade;
      evaluated_ = recorder_.version();
    }
    return CurvePoint{at_s, grade_.accuracy, grade_.loss};
  }

 private:
  Learner& learner_;
  Recorder& recorder_;
  TensorAlgebra& algebra_;
  Version evaluated_ = -1;
  Grade grade_;
};

// A model that is no longer finite is scored, not an error: the policy has lost this run.
Result<CurvePoint> scored(Result<CurvePoint> point, double at_s) {
  if (!point && point.error().code == Code::not_finite) return CurvePoint{at_s, 0, 0};
  return point;
}

}  // namespace

Result<PolicyConfig> policy_config(const PolicySpec& policy, const OptionList& choice) {
  PolicyConfig config;
  OptionList options = policy.options;
  options.insert(options.end(), choice.begin(), choice.end());
  for (const auto& [name, value] : options) {
    if (Status status = config.set(name, value); !status)
      return within("set up the policy " + policy.name, status.error());
  }
  if (Status status = config.validate(); !status)
    return within("set up the policy " + policy.name, status.error());
  return config;
}

Status check_training(const Setting& setting, const PolicyConfig& policy) {
  if (setting.momentum == 0 || !*policy.effective().control_variates) return {};
  return Error{Code::usage,
               "simulate control variates in the setting " + setting.name +
                   ": they need plain SGD, and its momentum is " + std::to_string(setting.momentum),
               "Set momentum = 0 there, or leave policies with control variates out; `outer` may "
               "have momentum all the same."};
}

Result<Logs> read_logs(const Experiment& experiment) {
  Logs logs;
  for (const Setting& setting : experiment.settings) {
    if (!setting.reads_trace() || logs.count(setting.trace) != 0) continue;
    Result<SwfLog> log = read_swf(setting.trace);
    if (!log) return log.error();
    logs.emplace(setting.trace, std::move(*log));
  }
  return logs;
}

namespace {

Result<CellResult> run_world(const Setting& setting, const PolicyConfig& policy, const CellKey& key,
                             Learner& learner, const Logs& logs, const FederationOptions& options) {
  const std::map<FacilityId, int> numbers = facility_numbers(setting.facilities);
  Recorder recorder(numbers, setting.job_nodes, learner.initial(),
                    static_cast<std::size_t>(*policy.effective().average_versions));
  TimedTrainer trainer(setting, key.seed, learner, recorder, numbers);
  TensorAlgebra algebra(learner.manifest());
  std::vector<std::unique_ptr<BatchQueue>> queues;
  World world(key.seed, server_setup(setting, policy, learner), trainer, recorder, {}, &algebra);
  recorder.watch(world.clock());
  for (int facility = 0; facility < setting.facilities; ++facility) {
    Result<std::unique_ptr<BatchQueue>> queue = make_queue(setting, facility, key.seed, logs);
    if (!queue) return queue.error();
    queues.push_back(std::move(*queue));
    world.add_facility(facility_setup(setting, facility), *queues.back());
  }
  world.start();

  CellResult result;
  result.key = key;
  Evaluator evaluator(learner, recorder, algebra);
  const auto points = static_cast<std::int64_t>(setting.horizon_s / setting.evaluation_interval_s);
  for (std::int64_t i = 0; i <= points; ++i) {
    const double at_s = static_cast<double>(i) * setting.evaluation_interval_s;
    world.clock().run_until(Instant(from_seconds(at_s)));
    Result<CurvePoint> point = scored(evaluator.at(at_s), at_s);
    if (!point) return point.error();
    point->node_seconds = recorder.node_seconds();
    result.curve.push_back(*point);
    result.best_accuracy = std::max(result.best_accuracy, point->accuracy);
    if (options.progress) options.progress(at_s, *point);
    if (options.stop_at_target && time_to_target_s(result.curve, setting.target, kSustained)) break;
  }
  result.final_accuracy = result.curve.back().accuracy;
  recorder.fill(result, options.keep_spans);
  // Training that left the numbers is the policy's fault and is in its curve; anything else is not.
  if (!trainer.error().message.empty() && trainer.error().code != Code::not_finite)
    return within("train", trainer.error());
  return result;
}

}  // namespace

Result<CellResult> run_federation(const Setting& setting, const PolicyConfig& policy,
                                  const CellKey& key, Learner& learner, const Logs& logs,
                                  const FederationOptions& options) {
  if (Status status = check_training(setting, policy); !status) return status.error();
  if (!*policy.effective().control_variates)
    return run_world(setting, policy, key, learner, logs, options);
  Result<ControlledLearner> controlled = ControlledLearner::create(learner, setting.facilities);
  if (!controlled) return controlled.error();
  return run_world(setting, policy, key, *controlled, logs, options);
}

}  // namespace fedqueue::simulation
