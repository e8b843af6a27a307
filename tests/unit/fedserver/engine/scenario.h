// A run played by hand: facilities that plan, register, train and deliver, and a clock that moves
// when told. Every fact is also encoded, decoded and folded into a second engine, whose durable
// state must equal the first one's at every step: so each scenario is a test of the replay, too.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "fedserver/engine/engine.h"

namespace fedqueue::test {

inline EngineConfig corrected_config() {
  EngineConfig config;
  config.run = "mnist";
  config.policy.policy = PolicyKind::fedqueue;
  config.policy.semantics = Semantics::corrected;
  config.policy.t_sync_s = 100;
  config.policy.theta_s = 10;
  config.policy.warm_up_steps = 10;
  config.policy.lr_base = 0.01;
  config.lease_s = 30;
  config.heartbeat_s = 5;
  return config;
}

inline EngineConfig fedavg_config() {
  EngineConfig config = corrected_config();
  config.policy.policy = PolicyKind::fedavg;
  config.policy.local_steps = 50;
  return config;
}

inline EngineConfig published_config() {
  EngineConfig config = corrected_config();
  config.policy.semantics = Semantics::published;
  return config;
}

class Scenario {
 public:
  explicit Scenario(EngineConfig config, std::vector<std::string> names = {"a", "b", "c"})
      : engine(config), shadow(config) {
    const Fact opened = RunOpened{"mnist", model(0)};
    engine.apply(opened, now);
    mirror(opened);
    for (const std::string& name : names) send(FacilityEnrolled{FacilityId(name), 100});
  }

  Answer send(Event event) {
    Step step = engine.step(event, now);
    for (const Fact& fact : step.facts) {
      mirror(fact);
      facts.push_back(fact_kind(fact));
    }
    EXPECT_EQ(engine.durable_state(), shadow.durable_state());
    for (const Action& action : step.actions) {
      if (const auto* reduce = std::get_if<StartReduce>(&action)) reduces.push_back(*reduce);
      if (const auto* remove = std::get_if<RemoveUpdate>(&action)) removed.insert(remove->id);
      if (const auto* remove = std::get_if<RemoveModel>(&action)) {
        models_removed.insert(remove->model.version);
      }
      if (const auto* remove = std::get_if<RemoveState>(&action)) {
        states_removed.insert(remove->state.file);
      }
    }
    return step.answer;
  }

  template <typename T>
  T ask(Event event) {
    Answer answer = send(std::move(event));
    if (const auto* error = std::get_if<Error>(&answer)) ADD_FAILURE() << error->message;
    if (!std::holds_alternative<T>(answer)) {
      ADD_FAILURE() << "an answer of another kind: " << answer.index();
      return T{};
    }
    return std::get<T>(answer);
  }

  Error refused(Event event) {
    Answer answer = send(std::move(event));
    if (!std::holds_alternative<Error>(answer)) {
      ADD_FAILURE() << "accepted";
      return {};
    }
    return std::get<Error>(answer);
  }

  PlanAnswer plan(const std::string& name, const std::string& key) {
    PlanRequest request;
    request.key = key;
    return ask<PlanAnswer>(PlanRequested{FacilityId(name), request});
  }

  static AttemptArrived arrival(const std::string& name, const std::string& attempt, double wait_s,
                                const std::string& key = "", const std::string& nonce = "n1") {
    AttemptArrived event;
    event.facility = FacilityId(name);
    event.registration.attempt = AttemptId(attempt);
    event.registration.nonce = nonce;
    event.registration.plan_key = key;
    event.registration.queue.queue_wait_s = wait_s;
    event.fresh_token = "token-" + attempt + "-" + nonce;
    return event;
  }

  JobAnswer start(const std::string& name, const std::string& attempt, double wait_s,
                  const std::string& key = "", const std::string& nonce = "n1") {
    return ask<JobAnswer>(arrival(name, attempt, wait_s, key, nonce));
  }

  static UpdateStored update(const std::string& name, const std::string& attempt,
                             const JobAnswer& job) {
    UpdateStored event;
    event.facility = FacilityId(name);
    event.id = make_update_id(event.facility, AttemptId(attempt), job.next.segment.index);
    event.metadata.base = job.next.segment.base;
    event.metadata.steps_run = job.next.segment.local_steps;
    event.metadata.seconds_per_step = 0.5;
    event.token = job.token;
    event.digest = "digest";
    event.bytes = 1000;
    return event;
  }

  UpdateAnswer deliver(const std::string& name, const std::string& attempt, const JobAnswer& job) {
    return ask<UpdateAnswer>(update(name, attempt, job));
  }

  // Plan, register and deliver in one go.
  UpdateAnswer round_of(const std::string& name, const std::string& attempt, double wait_s) {
    const PlanAnswer given = plan(name, "key-" + attempt);
    EXPECT_EQ(given.verb, PlanAnswer::Verb::submit) << given.reason;
    return deliver(name, attempt, start(name, attempt, wait_s, "key-" + attempt));
  }

  void leave(const std::string& name, const std::string& attempt, const std::string& state) {
    send(AttemptLeft{FacilityId(name), AttemptId(attempt), JobEnd{"", state, "seen by the agent"}});
  }

  void finish_reduce() {
    ASSERT_FALSE(reduces.empty());
    send(ReduceFinished{model(reduces.back().plan.input_version + 1), 0.5});
  }

  void pass(double seconds) { now += from_seconds(seconds); }
  void tick_after(double seconds) {
    pass(seconds);
    send(Tick{});
  }

  static ModelRecord model(Version version) {
    return {version, "round-" + std::to_string(version), "sha" + std::to_string(version), 1000};
  }

  [[nodiscard]] std::size_t count(const std::string& kind) const {
    return static_cast<std::size_t>(std::count(facts.begin(), facts.end(), kind));
  }

  Instant now{};
  Engine engine;
  Engine shadow;
  std::vector<std::string> facts;
  std::vector<StartReduce> reduces;
  std::set<UpdateId> removed;
  std::set<Version> models_removed;
  std::set<std::string> states_removed;

 private:
  void mirror(const Fact& fact) {
    const Result<Fact> copy = decode_fact(fact_kind(fact), encode_fact(fact));
    ASSERT_TRUE(copy) << copy.error().message;
    shadow.apply(*copy, now);
  }
};

}  // namespace fedqueue::test
