#include "simulation/clock/clock.h"

#include <algorithm>

namespace fedqueue::simulation {

Clock::Ticket Clock::schedule(Instant at, const char* what, std::function<void()> action) {
  const Ticket ticket = ++last_ticket_;
  const Instant due = std::max(at, now_);
  events_.emplace(Key{due, ticket}, Event{what, std::move(action)});
  when_.emplace(ticket, due);
  return ticket;
}

void Clock::cancel(Ticket ticket) {
  const auto found = when_.find(ticket);
  if (found == when_.end()) return;
  events_.erase(Key{found->second, ticket});
  when_.erase(found);
}

std::optional<Instant> Clock::next_at() const {
  if (events_.empty()) return std::nullopt;
  return events_.begin()->first.first;
}

bool Clock::step() {
  if (events_.empty()) return false;
  // Taken out first: the action may schedule, cancel, or throw.
  auto taken = events_.extract(events_.begin());
  now_ = taken.key().first;
  when_.erase(taken.key().second);
  ++happened_;
  trace_.mix(static_cast<std::uint64_t>(to_micros(now_)));
  trace_.mix(taken.mapped().what);
  taken.mapped().action();
  return true;
}

void Clock::run_until(Instant end) {
  while (!events_.empty() && events_.begin()->first.first <= end) step();
  now_ = std::max(now_, end);
}

bool Clock::run_while_not(const std::function<bool()>& done, Instant end) {
  for (;;) {
    if (done()) return true;
    if (events_.empty() || events_.begin()->first.first > end) return false;
    step();
  }
}

}  // namespace fedqueue::simulation
