// The account of the journal: counting, versions, staleness and weights. Replies, files and jobs
// are in checker_replies.cpp.
#include "simulation/check/checker.h"

#include <algorithm>
#include <cmath>

#include "core/base/digest.h"

namespace fedqueue::simulation {
namespace {

constexpr std::size_t violations_max = 20;  // of one seed; more tell nothing
constexpr double sum_tolerance = 1e-9;

}  // namespace

Checker::Checker(const Scenario& scenario)
    : scenario_(scenario),
      policy_(scenario.engine.policy.effective()),
      reference_(scenario.with_controls) {}

void Checker::violation(std::string what) {
  const Instant now = world_ != nullptr ? world_->clock().now() : Instant{};
  if (world_ != nullptr) world_->clock().tell("VIOLATION", what);
  if (violations_.size() < violations_max) violations_.push_back({now, std::move(what)});
}

int Checker::decided(const FacilityId& facility) const {
  const auto found = decided_.find(facility);
  return found == decided_.end() ? 0 : found->second;
}

void Checker::catch_up() {
  const std::vector<JournalRow>& rows = world_->server().journal().all();
  while (rows_seen_ < static_cast<std::int64_t>(rows.size())) {
    const JournalRow& row = rows[static_cast<std::size_t>(rows_seen_)];
    const Result<Fact> fact = decode_fact(row.kind, row.text);
    if (!fact) {
      violation("row " + std::to_string(row.sequence) + " cannot be read: " + fact.error().message);
      ++rows_seen_;
      continue;
    }
    take(row, *fact);
  }
}

void Checker::take(const JournalRow& row, const Fact& fact) {
  if (row.sequence != rows_seen_ + 1) {
    violation("row " + std::to_string(row.sequence) + " follows row " + std::to_string(rows_seen_));
  }
  rows_seen_ = row.sequence;
  const bool heard = world_->clock().trace().heard();
  world_->clock().tell("journal", row.kind, heard ? row.text : "");
  std::visit([this](const auto& value) { fold(value); }, fact);
}

void Checker::on_fact(const JournalRow& row, const Fact& fact, const Engine&) {
  if (row.sequence <= rows_seen_) return;
  if (row.sequence == rows_seen_ + 1) {
    take(row, fact);
  } else {
    catch_up();
  }
}

void Checker::fold(const RunOpened& fact) { models_[0] = fact.initial; }

void Checker::fold(const PlanGiven& fact) { plans_[fact.facility] = fact.plan.key; }

void Checker::fold(const AttemptStarted& fact) {
  tokens_[{fact.facility, fact.registration.attempt}] = fact.token;
  told_.insert({{fact.facility, fact.registration.attempt}, fact.token});
}

void Checker::fold(const AttemptRelaunched& fact) {
  tokens_[{fact.facility, fact.attempt}] = fact.token;
  told_.insert({{fact.facility, fact.attempt}, fact.token});
}

void Checker::fold(const AttemptFenced& fact) { fenced_.insert({fact.facility, fact.attempt}); }

void Checker::fold(const SegmentAssigned& fact) {
  segments_[{fact.facility, fact.attempt}] = fact.segment;
  if (!models_.contains(fact.segment.base)) {
    violation("attempt " + fact.attempt.str() + " is to start from version " +
              std::to_string(fact.segment.base) + ", which is not kept");
  }
}

void Checker::fold(const UpdateDecided& fact) {
  const UpdateId& id = fact.answer.id;
  if (!decisions_.emplace(id, fact).second) violation("update " + id.str() + " is decided twice");
  ++decided_[fact.facility];
  deciding_tokens_[id] = tokens_[{fact.facility, fact.attempt}];
  const Result<UpdateParts> parts = parse_update_id(id.str());
  if (!parts || parts->facility != fact.facility || parts->attempt != fact.attempt) {
    violation("update " + id.str() + " is decided for " + fact.facility.str() + ", attempt " +
              fact.attempt.str());
  }
  if (fenced_.contains({fact.facility, fact.attempt})) {
    violation("update " + id.str() + " of a replaced launch is decided");
  }
  const auto segment = segments_.find({fact.facility, fact.attempt});
  if (segment == segments_.end() || (parts && segment->second.index != parts->segment)) {
    violation("update " + id.str() + " is of no segment that was given");
    return;
  }
  if (fact.metadata.steps_run > segment->second.local_steps) {
    violation("update " + id.str() + " claims " + std::to_string(fact.metadata.steps_run) +
              " steps of " + std::to_string(segment->second.local_steps));
  }
  if (fact.metadata.base != segment->second.base) {
    violation("update " + id.str() + " has another base than its segment");
  }
}

void Checker::fold(const NextDecided& fact) {
  if (!decisions_.contains(fact.update) || !follow_ups_.emplace(fact.update, fact.next).second) {
    violation("what comes after update " + fact.update.str() + " is decided twice, or too early");
  }
}

void Checker::fold(const UpdatesDropped& fact) {
  dropped_.insert(fact.ids.begin(), fact.ids.end());
}

void Checker::fold(const ReduceStarted& fact) {
  if (reducing_) violation("a second reduction begins while one is under way");
  if (fact.input_version != latest_) {
    violation("the reduction of version " + std::to_string(latest_ + 1) + " starts from version " +
              std::to_string(fact.input_version));
  }
  const std::int64_t cap = staleness_cap();
  for (const ReduceInput& input : fact.updates) {
    const std::string name = "update " + input.id.str();
    if (!used_.insert(input.id).second) violation(name + " counts twice");
    if (dropped_.contains(input.id)) violation(name + " counts after it was dropped");
    const auto decided = decisions_.find(input.id);
    if (decided == decisions_.end()) {
      violation(name + " counts and was never decided");
      continue;
    }
    const UpdateDecided& decision = decided->second;
    if (decision.answer.disposition == Disposition::rejected) {
      violation(name + " counts and was rejected");
    }
    const std::int64_t staleness = fact.input_version - decision.metadata.base;
    if (input.staleness != staleness || staleness < 0) {
      violation(name + " has staleness " + std::to_string(input.staleness) + ", and " +
                std::to_string(staleness) + " is right");
    }
    if (cap >= 0 && staleness > cap) {
      violation(name + " counts with staleness " + std::to_string(staleness) +
                ", above the cap of " + std::to_string(cap));
    }
  }
  check_weights(fact);
  reducing_ = fact;
}

// Where every arrival makes a version, the cap is in rounds of all facilities. −1: none.
std::int64_t Checker::staleness_cap() const {
  const std::int64_t cap = policy_.staleness_max.value_or(-1);
  const bool by_arrival =
      policy_.policy == PolicyKind::fedasync || policy_.policy == PolicyKind::fedbuff ||
      policy_.policy == PolicyKind::fedcompass || policy_.policy == PolicyKind::resident;
  if (cap < 0 || !by_arrival) return cap;
  return cap * static_cast<std::int64_t>(scenario_.facilities.size());
}

void Checker::check_weights(const ReduceStarted& fact) {
  double sum = 0;
  for (const ReduceInput& input : fact.updates) {
    if (!std::isfinite(input.weight) || input.weight < 0) {
      violation("update " + input.id.str() + " has the weight " + std::to_string(input.weight));
    }
    sum += input.weight;
  }
  const double control_weight =
      scenario_.with_controls ? 1.0 / static_cast<double>(scenario_.facilities.size()) : 0;
  if (std::abs(fact.control_weight - control_weight) > sum_tolerance) {
    violation("control variates have the weight " + std::to_string(fact.control_weight) + ", and " +
              std::to_string(control_weight) + " is right");
  }
  const auto must_be = [&](bool good, const std::string& rule) {
    if (!good) {
      violation("the weights of version " + std::to_string(fact.input_version + 1) + " sum to " +
                std::to_string(sum) + ": " + rule);
    }
  };
  if (fact.rebuild_models) {
    must_be(std::abs(fact.keep + sum - 1) < sum_tolerance, "with the kept model they make 1");
    return;
  }
  // Its weights undo that facilities run different numbers of steps.
  if (policy_.weights == WeightRule::nova) return;
  const double eta_global = *policy_.effective().eta_global;
  const double limit = std::max(1.0, policy_.a_max) * eta_global;
  must_be(sum <= limit + sum_tolerance, "at most " + std::to_string(limit));
  const bool averages =
      policy_.policy == PolicyKind::fedavg && policy_.weights != WeightRule::participation;
  if (averages) must_be(std::abs(sum - eta_global) < sum_tolerance, "an average's make 1");
}

void Checker::fold(const Published& fact) {
  const Version version = fact.model.version;
  const std::string name = "version " + std::to_string(version);
  if (version != latest_ + 1) {
    violation(name + " is published after version " + std::to_string(latest_));
  }
  if (!reducing_) violation(name + " is published without a reduction");
  reducing_.reset();
  latest_ = version;
  models_[version] = fact.model;
  reference_.accept();
  const auto reduced = reduced_.find(version);
  if (reduced == reduced_.end() || reduced->second != fact.model.sha256) {
    violation(name + " has a checksum that nobody made");
  }
  const SharedBytes content =
      world_->server().disk().durable_content("/server/models/" + fact.model.file);
  if (!content || sha256_hex(*content) != fact.model.sha256) {
    violation(name + " is published, and its file is not durable");
  }
}

void Checker::on_reduced(const StartReduce& action, const Bytes& current,
                         const std::vector<SharedBytes>& updates,
                         const std::vector<SharedBytes>& bases, const Bytes& model) {
  catch_up();
  const Version version = action.plan.input_version + 1;
  const std::string name = "version " + std::to_string(version);
  reduced_[version] = sha256_hex(model);
  if (version != latest_ + 1) return;  // published already, by a process that died
  if (!reducing_) return violation(name + " is reduced, and no journalled set says of what");
  const auto same = [](const ReduceInput& a, const ReduceInput& b) {
    return a.id == b.id && a.weight == b.weight && a.base == b.base;
  };
  if (!std::equal(reducing_->updates.begin(), reducing_->updates.end(), action.plan.updates.begin(),
                  action.plan.updates.end(), same)) {
    violation(name + " is reduced from another set than the journalled one");
  }
  if (sha256_hex(current) != models_.at(latest_).sha256) {
    violation(name + " is reduced from something that is not version " + std::to_string(latest_));
  }
  for (std::size_t k = 0; k < updates.size(); ++k) {
    const ReduceInput& input = reducing_->updates[k];
    const auto decision = decisions_.find(input.id);
    if (decision != decisions_.end() && xxh128_hex(*updates[k]) != decision->second.digest) {
      violation("update " + input.id.str() + " is reduced with other bytes than were announced");
    }
    for (const float value : to_floats(*updates[k])) {
      if (!std::isfinite(value)) return violation(name + " takes in what is not finite");
    }
  }
  const auto compare = [&](Side side) {
    return difference_of_halves(reference_.next(*reducing_, current, updates, bases, side), model,
                                current, updates);
  };
  std::string wrong = compare(Side::own);
  if (!wrong.empty() && reference_.near_an_edge()) wrong = compare(Side::other);
  if (!wrong.empty()) violation(name + " is not what its set makes: " + wrong);
}

// Parameters and control variates have sums, and so rounding errors, of sizes of their own.
std::string Checker::difference_of_halves(const std::vector<double>& expected, const Bytes& model,
                                          const Bytes& current,
                                          const std::vector<SharedBytes>& updates) const {
  const std::span<const float> published = to_floats(model);
  if (published.size() != expected.size()) {
    return "it has " + std::to_string(published.size()) + " elements, and " +
           std::to_string(expected.size()) + " are right";
  }
  const std::size_t parameters = scenario_.parameters_of(expected.size());
  const auto part = [&](std::size_t begin, std::size_t count) {
    const bool controls = begin > 0;
    double scale = 0;
    const auto widen = [&](const Bytes& bytes, double weight) {
      for (const float value : to_floats(bytes).subspan(begin, count))
        scale = std::max(scale, std::abs(weight * value));
    };
    widen(current, 1);
    for (std::size_t k = 0; k < updates.size(); ++k)
      widen(*updates[k], controls ? reducing_->control_weight : reducing_->updates[k].weight);
    return difference(std::span(expected).subspan(begin, count), published.subspan(begin, count),
                      scale);
  };
  const std::string wrong = part(0, parameters);
  if (!wrong.empty() || parameters == expected.size()) return wrong;
  const std::string in_controls = part(parameters, expected.size() - parameters);
  return in_controls.empty() ? "" : "of its control variates " + in_controls;
}

}  // namespace fedqueue::simulation
