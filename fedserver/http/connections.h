// The open connections: how many there are, and how to end them.
//
// Thread-safe. A Member leaves the list before its stream closes the socket, so that a cut never
// reaches a descriptor that belongs to somebody else by then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

#include "fedserver/http/stream.h"

namespace fedqueue::http {

class Connections {
 public:
  class Member {
   public:
    Member(Connections& all, Stream& stream) : all_(all), number_(all.add(stream)) {}
    ~Member() { all_.remove(number_); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    [[nodiscard]] std::uint64_t number() const { return number_; }

   private:
    Connections& all_;
    std::uint64_t number_;
  };

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return streams_.size();
  }
  // Ends one connection, if it is still there.
  void cut(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (const auto found = streams_.find(number); found != streams_.end()) found->second->cut();
  }
  void cut_overdue() {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    for (const auto& [number, stream] : streams_) {
      if (stream->overdue(now)) stream->cut();
    }
  }
  // Ends all, now and from now on.
  void cut_all() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const auto& [number, stream] : streams_) stream->cut();
  }
  // True when none is left.
  bool wait_empty(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return left_.wait_for(lock, time, [this] { return streams_.empty(); });
  }

 private:
  std::uint64_t add(Stream& stream) {
    const std::lock_guard lock(mutex_);
    streams_.emplace(++last_, &stream);
    if (ending_) stream.cut();
    return last_;
  }
  void remove(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    streams_.erase(number);
    if (streams_.empty()) left_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable left_;
  std::map<std::uint64_t, Stream*> streams_;  // guarded by mutex_
  std::uint64_t last_ = 0;                    // guarded by mutex_
  bool ending_ = false;                       // guarded by mutex_
};

}  // namespace fedqueue::http
