// One cell of a comparison: builds the world of a setting, runs the product's own server, agents
// and sessions in it under a policy until the horizon, and measures.
//
// The same setting, policy, seed and learner give the same result, event by event.
//
// Thread safety: none; a process runs one federation at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "aggregation/policy/policy_config.h"
#include "simulation/experiment/cell.h"
#include "simulation/experiment/experiment.h"
#include "simulation/experiment/setting.h"
#include "simulation/federation/learner.h"
#include "simulation/queues/swf.h"

namespace fedqueue::simulation {

// A policy of the experiment with further options, as text, on top of its own.
[[nodiscard]] Result<PolicyConfig> policy_config(const PolicySpec& policy,
                                                 const OptionList& choice);

// Code::usage when facilities cannot train by this policy in this setting.
[[nodiscard]] Status check_training(const Setting& setting, const PolicyConfig& policy);

// Logs by path, read once and shared by all cells.
using Logs = std::map<std::string, SwfLog>;
[[nodiscard]] Result<Logs> read_logs(const Experiment& experiment);

struct FederationOptions {
  bool keep_spans = false;
  bool stop_at_target = false;  // as soon as the setting's target is reached for good
  // Called with the virtual time, now and then.
  std::function<void(double at_s, const CurvePoint& newest)> progress;
};

[[nodiscard]] Result<CellResult> run_federation(const Setting& setting, const PolicyConfig& policy,
                                                const CellKey& key, Learner& learner,
                                                const Logs& logs, const FederationOptions& options);

}  // namespace fedqueue::simulation
