#include "fedserver/http/fact_feed.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "fedserver/telemetry/public_fact.h"

namespace fedqueue::http {
namespace {

template <typename T>
constexpr bool has_facility = requires(const T& fact) {
  fact.facility;
};

// What tells a facility how the round goes, without telling it anything of another.
template <typename T>
constexpr bool for_everybody =
    std::is_same_v<T, RunOpened> || std::is_same_v<T, RoundTimedOut> ||
    std::is_same_v<T, Published> || std::is_same_v<T, EvaluationRecorded> ||
    std::is_same_v<T, RunStalled> || std::is_same_v<T, RunFinished>;

}  // namespace

FeedEvent make_feed_event(const JournalRow& row, const Fact& fact) {
  FeedEvent event{row.sequence, row.kind, public_fact(row), std::nullopt, false};
  std::visit(
      [&event](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (has_facility<T>) event.owner = value.facility;
        event.everybody = for_everybody<T>;
      },
      fact);
  return event;
}

bool may_see(const FeedEvent& event, const std::optional<FacilityId>& viewer) {
  return !viewer || event.everybody || event.owner == viewer;
}

std::string event_text(const FeedEvent& event) {
  return "id: " + std::to_string(event.sequence) + "\nevent: " + event.kind +
         "\ndata: " + event.text + "\n\n";
}

void FactFeed::on_fact(const JournalRow& row, const Fact& fact, const Engine& /*engine*/) {
  keep(row, fact);
}

void FactFeed::on_replayed(const JournalRow& row, const Fact& fact) { keep(row, fact); }

void FactFeed::keep(const JournalRow& row, const Fact& fact) {
  auto event = std::make_shared<const FeedEvent>(make_feed_event(row, fact));
  std::vector<Waiter> woken;
  {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(event));
    if (kept_.size() > kept_max) kept_.pop_front();
    newest_ = row.sequence;
    woken.swap(waiters_);
  }
  for (const Waiter& waiter : woken) waiter.wake(true);
}

std::int64_t FactFeed::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

std::optional<std::vector<std::shared_ptr<const FeedEvent>>> FactFeed::after(
    std::int64_t sequence, std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const FeedEvent>> events;
  if (sequence >= newest_) return events;
  if (kept_.empty() || kept_.front()->sequence > sequence + 1) return std::nullopt;
  auto next = kept_.begin() + (sequence + 1 - kept_.front()->sequence);
  for (; next != kept_.end() && events.size() < limit; ++next) events.push_back(*next);
  return events;
}

void FactFeed::wait(std::int64_t sequence, std::chrono::steady_clock::time_point deadline,
                    std::function<void(bool)> wake) {
  {
    const std::lock_guard lock(mutex_);
    if (newest_ <= sequence) {
      waiters_.push_back({deadline, std::move(wake)});
      return;
    }
  }
  wake(true);
}

void FactFeed::expire(std::chrono::steady_clock::time_point now) {
  std::vector<Waiter> expired;
  {
    const std::lock_guard lock(mutex_);
    const auto late = std::partition(waiters_.begin(), waiters_.end(),
                                     [now](const Waiter& one) { return one.deadline > now; });
    std::move(late, waiters_.end(), std::back_inserter(expired));
    waiters_.erase(late, waiters_.end());
  }
  for (const Waiter& waiter : expired) waiter.wake(false);
}

std::size_t FactFeed::watchers() const {
  const std::lock_guard lock(mutex_);
  return waiters_.size();
}

}  // namespace fedqueue::http
