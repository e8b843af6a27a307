// A value or the reason why there is none; the member names of std::expected, so that C++23 can
// take over with an alias.
//
// Thread safety: as the value's.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "core/base/assert.h"
#include "core/base/error.h"

namespace fedqueue {

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

  [[nodiscard]] const Error& error() const {
    FEDQUEUE_ASSERT(!has_value());
    return std::get<1>(state_);
  }
  [[nodiscard]] T value_or(T otherwise) const& {
    return has_value() ? std::get<0>(state_) : otherwise;
  }

 private:
  T& checked() {
    FEDQUEUE_ASSERT(has_value());
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  [[nodiscard]] bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] const Error& error() const {
    FEDQUEUE_ASSERT(error_.has_value());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace fedqueue
