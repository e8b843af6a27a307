// Counters and gauges in Prometheus' text format.
//
// Promises: names and labels come out in a fixed order; label values may be anything (they are
// escaped); a name that was never set does not appear. The number of series is bounded, so that a
// peer cannot fill the memory with made-up labels.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fedqueue {

class Metrics {
 public:
  enum class Kind { counter, gauge };
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  static constexpr std::size_t series_max = 20'000;

  // The kind and the help text of a name. A name used without it is a counter.
  void describe(std::string_view name, Kind kind, std::string_view help);

  void add(std::string_view name, double amount = 1, Labels labels = {});
  void set(std::string_view name, double value, Labels labels = {});
  // Forgets every series of this name, before the present ones are set.
  void clear(std::string_view name);

  // Called before each rendering, to set gauges that are measured then.
  void before_rendering(std::function<void(Metrics&)> measure);

  [[nodiscard]] double value(std::string_view name, Labels labels = {}) const;
  [[nodiscard]] std::string text();

 private:
  struct Family {
    Kind kind = Kind::counter;
    std::string help;
    std::map<std::string, double> series;  // by rendered labels
  };

  double* series(std::string_view name, Labels labels);  // REQUIRES: mutex_ held

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;  // guarded by mutex_
  std::size_t series_count_ = 0;                         // guarded by mutex_
  std::vector<std::function<void(Metrics&)>> measures_;  // guarded by mutex_
};

// Resident memory of this process in bytes; 0 where the system does not tell.
[[nodiscard]] double resident_memory_bytes();

}  // namespace fedqueue
