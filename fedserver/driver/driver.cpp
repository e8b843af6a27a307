#include "fedserver/driver/driver.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/assert.h"
#include "core/base/points.h"

namespace fedqueue {
namespace {

constexpr std::size_t events_per_turn_max = 256;
constexpr std::size_t rows_per_read = 4096;
constexpr Duration uptime_note_interval = std::chrono::seconds(2);

}  // namespace

Driver::Driver(std::unique_ptr<Engine> engine, Journal& journal, Effects& effects,
               std::vector<Observer*> observers, std::function<void()> wake,
               std::size_t queue_limit)
    : engine_(std::move(engine)),
      journal_(journal),
      effects_(effects),
      observers_(std::move(observers)),
      wake_(std::move(wake)),
      queue_limit_(queue_limit) {}

Result<std::unique_ptr<Driver>> Driver::create(EngineConfig config, ModelRecord initial,
                                               Journal& journal, Effects& effects,
                                               std::vector<Observer*> observers,
                                               std::function<void()> wake,
                                               std::size_t queue_limit) {
  const std::string run = config.run;
  std::unique_ptr<Driver> driver(new Driver(std::make_unique<Engine>(std::move(config)), journal,
                                            effects, std::move(observers), std::move(wake),
                                            queue_limit));
  if (Status replayed = driver->replay(); !replayed) return replayed.error();
  if (driver->sequence_ == 0) {
    const Fact opened = RunOpened{run, std::move(initial)};
    driver->engine_->apply(opened, driver->resumed_at_);
    driver->commit({opened}, driver->resumed_at_);
  } else if (driver->engine_->state().run != run) {
    return Error{Code::conflict,
                 "the journal is of run '" + driver->engine_->state().run + "', not '" + run + "'",
                 "Give each run a directory of its own."};
  }
  return driver;
}

Status Driver::replay() {
  for (;;) {
    const Result<std::vector<JournalRow>> rows = journal_.rows(sequence_, rows_per_read);
    if (!rows) return rows.error();
    if (rows->empty()) break;
    for (const JournalRow& row : *rows) {
      if (row.sequence != sequence_ + 1) {
        return Error{Code::journal,
                     "the journal has a hole: row " + std::to_string(sequence_ + 1) +
                         " is missing before row " + std::to_string(row.sequence),
                     "Restore the run directory from a backup."};
      }
      const Result<Fact> fact = decode_fact(row.kind, row.text);
      if (!fact) return fact.error();
      engine_->apply(*fact, row.at);
      for (Observer* observer : observers_) observer->on_replayed(row, *fact);
      sequence_ = row.sequence;
      resumed_at_ = std::max(resumed_at_, row.at);
    }
  }
  if (sequence_ > 0) FEDQUEUE_MARK(driver_replayed);
  const Result<Instant> uptime = journal_.uptime();
  if (!uptime) return uptime.error();
  resumed_at_ = std::max(resumed_at_, *uptime);
  uptime_noted_ = resumed_at_;
  return {};
}

void Driver::resume(Instant now) {
  engine_->resumed(now);
  for (const Action& action : engine_->pending()) effects_.perform(action);
}

bool Driver::post(Event event, Reply reply) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= queue_limit_ && !FEDQUEUE_PLANTED(queue_without_bound)) {
      FEDQUEUE_MARK(driver_busy);
      return false;
    }
    queue_.push_back({std::move(event), std::move(reply)});
  }
  if (wake_) wake_();
  return true;
}

void Driver::complete(Event event) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(event), {}});
  }
  if (wake_) wake_();
}

std::size_t Driver::queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void Driver::turn(Instant now) {
  std::vector<Queued> taken;
  {
    const std::lock_guard lock(mutex_);
    while (!queue_.empty() && taken.size() < events_per_turn_max) {
      taken.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
  }
  taken.push_back({Tick{}, {}});
  std::vector<Fact> facts;
  std::vector<Action> actions;
  std::vector<std::pair<Reply, Answer>> replies;
  for (Queued& queued : taken) {
    Step step = engine_->step(queued.event, now);
    std::move(step.facts.begin(), step.facts.end(), std::back_inserter(facts));
    std::move(step.actions.begin(), step.actions.end(), std::back_inserter(actions));
    if (queued.reply) replies.emplace_back(std::move(queued.reply), std::move(step.answer));
  }
  if (FEDQUEUE_PLANTED(reply_before_commit)) {
    for (auto& [reply, answer] : replies) reply(std::move(answer));
    replies.clear();
  }
  if (!facts.empty()) {
    commit(facts, now);
  } else if (now - uptime_noted_ >= uptime_note_interval) {
    uptime_noted_ = now;
    // Losing this note costs a little uptime, never a fact.
    (void)journal_.note_uptime(now);
  }
  for (auto& [reply, answer] : replies) reply(std::move(answer));
  for (const Action& action : actions) effects_.perform(action);
}

void Driver::commit(const std::vector<Fact>& facts, Instant now) {
  std::vector<JournalRow> rows;
  rows.reserve(facts.size());
  for (const Fact& fact : facts) {
    rows.push_back({sequence_ + static_cast<std::int64_t>(rows.size()) + 1, now, fact_kind(fact),
                    encode_fact(fact)});
  }
  if (Status written = journal_.append(rows); !written) {
    std::fprintf(stderr, "fedserver: %s\n  %s\n", written.error().message.c_str(),
                 written.error().cure.c_str());
    std::fflush(stderr);
    std::_Exit(exit_code(written.error()));
  }
  sequence_ += static_cast<std::int64_t>(rows.size());
  uptime_noted_ = now;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    for (Observer* observer : observers_) observer->on_fact(rows[i], facts[i], *engine_);
  }
}

}  // namespace fedqueue
