// Which file a version is, and how long a decided update was, learnt from the facts.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "fedserver/driver/driver.h"

namespace fedqueue::http {

class ModelIndex : public Observer {
 public:
  static constexpr std::size_t decided_max = 8192;  // the newest; older ones are forgotten

  void on_fact(const JournalRow& row, const Fact& fact, const Engine& engine) override;
  void on_replayed(const JournalRow& row, const Fact& fact) override;

  [[nodiscard]] std::optional<ModelRecord> find(Version version) const;
  [[nodiscard]] std::optional<ModelRecord> latest() const;
  // Versions below this one are gone.
  [[nodiscard]] Version oldest() const;
  [[nodiscard]] std::optional<std::uint64_t> decided_bytes(const UpdateId& id) const;

 private:
  void take(const Fact& fact);

  mutable std::mutex mutex_;
  std::map<Version, ModelRecord> models_;      // guarded by mutex_
  Version oldest_ = 0;                         // guarded by mutex_
  std::map<UpdateId, std::uint64_t> decided_;  // guarded by mutex_
  std::deque<UpdateId> decided_order_;         // guarded by mutex_
};

}  // namespace fedqueue::http
