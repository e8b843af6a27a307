#include "simulation/report/summary.h"

#include <algorithm>
#include <cmath>

namespace fedqueue::simulation {
namespace {

using Cells = std::map<CellKey, CellResult>;

constexpr double kSecondsPerHour = 3600;
constexpr int kBandResamples = 400;

const CellResult* find(const Cells& cells, const CellKey& key) {
  const auto found = cells.find(key);
  return found == cells.end() ? nullptr : &found->second;
}

std::optional<double> reached_s(const CellResult* cell, double target) {
  if (cell == nullptr || !cell->error.empty()) return std::nullopt;
  return time_to_target_s(cell->curve, target);
}

// A time that may stand in a ratio: never 0, which only a target below the first accuracy gives.
double counted_s(const CellResult* cell, const Setting& setting, double target) {
  return std::max(reached_s(cell, target).value_or(setting.horizon_s),
                  setting.evaluation_interval_s);
}

// To the target, or to the horizon. Before any allocation has begun: a second of one node, so that
// ratios stay defined.
double counted_node_seconds(const CellResult* cell, const Setting& setting, double target) {
  if (cell == nullptr || cell->curve.empty()) return 1;
  return std::max(1.0, node_seconds_at(cell->curve, counted_s(cell, setting, target)));
}

MeanInterval mean_interval(const std::vector<double>& values) {
  if (values.empty()) return {};
  std::vector<std::vector<CurvePoint>> points;
  for (const double value : values) points.push_back({CurvePoint{0, value, 0}});
  const Band band = band_of(points).front();
  return {band.mean, band.low, band.high};
}

TargetSummary target_summary(const std::vector<const CellResult*>& cells, const Setting& setting,
                             double target) {
  TargetSummary summary;
  summary.target = target;
  std::vector<PairedRatio> times;
  std::vector<double> node_seconds;
  for (const CellResult* cell : cells) {
    if (reached_s(cell, target)) ++summary.reached;
    times.push_back({0, counted_s(cell, setting, target)});
    node_seconds.push_back(counted_node_seconds(cell, setting, target));
  }
  if (times.empty()) return summary;
  const Interval interval = bootstrap_ratio(times);
  summary.time_s = interval.estimate;
  summary.low_s = interval.low;
  summary.high_s = interval.high;
  summary.node_hours = geometric_mean(node_seconds) / kSecondsPerHour;
  return summary;
}

void add_means(PolicySummary& summary, const std::vector<const CellResult*>& cells) {
  double training = 0;
  double used = 0;
  double wasted = 0;
  for (const CellResult* cell : cells) {
    training += cell->training_seconds;
    used += cell->node_seconds_used;
    wasted += cell->node_seconds_wasted;
    summary.updates_counted += static_cast<double>(cell->updates_counted);
    summary.updates_late += static_cast<double>(cell->updates_late);
    summary.updates_dropped += static_cast<double>(cell->updates_dropped);
    summary.jobs += static_cast<double>(cell->jobs);
    summary.jobs_failed += static_cast<double>(cell->jobs_failed);
    summary.versions += static_cast<double>(cell->versions);
    summary.steps_run += static_cast<double>(cell->steps_run);
    summary.bytes_up += static_cast<double>(cell->bytes_up);
    summary.bytes_down += static_cast<double>(cell->bytes_down);
    for (const auto& [versions, count] : cell->staleness) summary.staleness[versions] += count;
    summary.waits_s.insert(summary.waits_s.end(), cell->queue_waits_s.begin(),
                           cell->queue_waits_s.end());
  }
  std::sort(summary.waits_s.begin(), summary.waits_s.end());
  if (used > 0) summary.allocation_share = training / used;
  if (cells.empty()) return;
  const auto count = static_cast<double>(cells.size());
  summary.node_hours_used = used / count / kSecondsPerHour;
  summary.node_hours_wasted = wasted / count / kSecondsPerHour;
  for (double* mean : {&summary.updates_counted, &summary.updates_late, &summary.updates_dropped,
                       &summary.jobs, &summary.jobs_failed, &summary.versions, &summary.steps_run,
                       &summary.bytes_up, &summary.bytes_down}) {
    *mean /= count;
  }
}

PolicySummary policy_summary(const Experiment& experiment, const Setting& setting,
                             const PolicySpec& policy, Phase phase, const std::string& choice,
                             const Cells& cells) {
  PolicySummary summary;
  summary.phase = phase;
  summary.setting = setting.name;
  summary.policy = policy.name;
  summary.role = policy.role;
  summary.choice = choice;
  std::vector<const CellResult*> all;
  std::vector<const CellResult*> good;
  std::vector<std::vector<CurvePoint>> curves;
  std::vector<double> accuracies;
  for (const std::uint64_t seed : experiment.reported_seeds()) {
    const CellResult* cell = find(cells, {phase, setting.name, policy.name, seed, choice});
    if (cell == nullptr) continue;
    all.push_back(cell);
    if (!cell->error.empty()) {
      ++summary.failed;
      if (summary.first_error.empty()) summary.first_error = cell->error;
      continue;
    }
    good.push_back(cell);
    curves.push_back(cell->curve);
    accuracies.push_back(cell->final_accuracy);
  }
  summary.seeds = static_cast<int>(all.size());
  summary.targets.push_back(target_summary(all, setting, setting.target));
  for (const double target : setting.targets_shown)
    summary.targets.push_back(target_summary(all, setting, target));
  summary.final_accuracy = mean_interval(accuracies);
  BootstrapOptions options;
  options.resamples = kBandResamples;
  summary.curve = band_of(curves, options);
  add_means(summary, good);
  return summary;
}

std::string json_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Whom a policy is compared with, in each setting.
struct Opponent {
  std::string name;
  std::map<std::string, std::string> by_setting;  // setting → policy
};

std::string choice_in(const Experiment& experiment, const Choices& choices, Phase phase,
                      const std::string& setting, const std::string& policy) {
  if (phase == Phase::equal) return to_text(choices_of(*experiment.policy(policy), 1).front());
  return to_text(choices.at({setting, policy}).options);
}

std::optional<RatioSummary> ratio_of(const Experiment& experiment, const Choices& choices,
                                     const Cells& cells, Phase phase, const PolicySpec& ours,
                                     const Opponent& opponent) {
  RatioSummary summary;
  summary.name = json_name(ours.name) + "_vs_" + json_name(opponent.name);
  summary.phase = phase;
  summary.theirs_by_setting = opponent.by_setting;
  std::vector<PairedRatio> times;
  std::vector<PairedRatio> hours;
  std::vector<PairedRatio> hours_horizon;
  for (std::size_t index = 0; index < experiment.settings.size(); ++index) {
    const Setting& setting = experiment.settings[index];
    const std::string& theirs = opponent.by_setting.at(setting.name);
    double sum = 0;
    int pairs = 0;
    for (const std::uint64_t seed : experiment.reported_seeds()) {
      const CellResult* left =
          find(cells, {phase, setting.name, ours.name, seed,
                       choice_in(experiment, choices, phase, setting.name, ours.name)});
      const CellResult* right =
          find(cells, {phase, setting.name, theirs, seed,
                       choice_in(experiment, choices, phase, setting.name, theirs)});
      if (left == nullptr || right == nullptr) continue;
      if (!reached_s(left, setting.target)) ++summary.cells_failed;
      if (!reached_s(right, setting.target)) ++summary.theirs_unreached;
      const double ratio =
          counted_s(left, setting, setting.target) / counted_s(right, setting, setting.target);
      times.push_back({index, ratio});
      sum += std::log(ratio);
      ++pairs;
      hours.push_back({index, counted_node_seconds(left, setting, setting.target) /
                                  counted_node_seconds(right, setting, setting.target)});
      if (left->node_seconds_used > 0 && right->node_seconds_used > 0)
        hours_horizon.push_back({index, left->node_seconds_used / right->node_seconds_used});
    }
    if (pairs > 0) summary.by_setting[setting.name] = std::exp(sum / pairs);
  }
  if (times.empty()) return std::nullopt;
  summary.time = bootstrap_ratio(times);
  summary.node_hours = bootstrap_ratio(hours);
  if (!hours_horizon.empty()) summary.node_hours_horizon = bootstrap_ratio(hours_horizon);
  summary.p_value = sign_flip_p_value(times);
  return summary;
}

Opponent everywhere(const Experiment& experiment, const std::string& policy) {
  Opponent opponent{policy, {}};
  for (const Setting& setting : experiment.settings) opponent.by_setting[setting.name] = policy;
  return opponent;
}

std::optional<Opponent> best_everywhere(const Experiment& experiment, const Choices& choices,
                                        Role role) {
  Opponent opponent{"best_" + std::string(to_text(role)), {}};
  for (const Setting& setting : experiment.settings) {
    const std::string best = best_of(role, setting.name, experiment, choices);
    if (best.empty()) return std::nullopt;
    opponent.by_setting[setting.name] = best;
  }
  return opponent;
}

std::vector<RatioSummary> ratios_of(const Experiment& experiment, const Choices& choices,
                                    const Cells& cells, Phase phase) {
  std::vector<RatioSummary> ratios;
  const auto add = [&](const PolicySpec& ours, const Opponent& opponent) {
    if (auto ratio = ratio_of(experiment, choices, cells, phase, ours, opponent))
      ratios.push_back(std::move(*ratio));
  };
  for (const PolicySpec& policy : experiment.policies) {
    if (policy.role != Role::ours && policy.role != Role::published) continue;
    if (policy.role == Role::ours) {
      for (const PolicySpec& other : experiment.policies)
        if (other.role == Role::published) add(policy, everywhere(experiment, other.name));
    }
    for (const Role role : {Role::baseline, Role::equal}) {
      if (policy.role == Role::published && role == Role::equal) continue;
      if (const auto best = best_everywhere(experiment, choices, role)) add(policy, *best);
      for (const PolicySpec& other : experiment.policies)
        if (other.role == role) add(policy, everywhere(experiment, other.name));
    }
  }
  std::vector<double> p_values;
  for (const RatioSummary& ratio : ratios) p_values.push_back(ratio.p_value);
  const std::vector<double> corrected = holm(p_values);
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i].p_holm = corrected[i];
  return ratios;
}

}  // namespace

Report summarize(const Experiment& experiment, const Choices& choices, const Cells& cells) {
  Report report;
  report.experiment = experiment;
  report.cells = cells.size();
  for (const auto& [key, cell] : cells) report.wall_seconds += cell.wall_seconds;
  // At equal settings the best baseline is the one that is best untuned.
  Experiment untuned = experiment;
  untuned.tuning_budget = 1;
  const Choices untuned_choices = choose(untuned, cells);
  for (const Phase phase : {Phase::tuned, Phase::equal}) {
    const Choices& basis = phase == Phase::equal ? untuned_choices : choices;
    for (const Setting& setting : experiment.settings) {
      for (const PolicySpec& policy : experiment.policies) {
        const std::string choice = choice_in(experiment, basis, phase, setting.name, policy.name);
        report.policies.push_back(
            policy_summary(experiment, setting, policy, phase, choice, cells));
        const CellResult* example =
            find(cells, {phase, setting.name, policy.name, experiment.first_seed, choice});
        if (example != nullptr) report.examples.push_back(*example);
      }
    }
    std::vector<RatioSummary> ratios = ratios_of(experiment, basis, cells, phase);
    report.ratios.insert(report.ratios.end(), ratios.begin(), ratios.end());
  }
  return report;
}

}  // namespace fedqueue::simulation
