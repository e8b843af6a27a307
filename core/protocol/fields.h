// Reading the fields of one JSON object with a clear word about what is wrong. Internal to the
// codecs of this folder and of the journal's facts.
//
// Throws FieldError, which the decoders catch; nothing escapes them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "core/protocol/messages.h"

namespace fedqueue {

struct FieldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Fields {
 public:
  explicit Fields(const nlohmann::json& object) : object_(object) {
    if (!object.is_object()) throw FieldError("expected a JSON object");
  }

  [[nodiscard]] bool has(const char* name) const {
    const auto found = object_.find(name);
    return found != object_.end() && !found->is_null();
  }

  [[nodiscard]] const nlohmann::json& at(const char* name) const {
    if (!has(name)) throw FieldError(std::string("field '") + name + "' is missing");
    return object_.at(name);
  }

  [[nodiscard]] std::string text(const char* name, std::size_t bytes_max = text_bytes_max) const {
    const nlohmann::json& value = at(name);
    if (!value.is_string()) wrong(name, "a text", value);
    const std::string& text = value.get_ref<const std::string&>();
    if (text.size() > bytes_max) {
      throw FieldError(std::string("field '") + name + "' is longer than " +
                       std::to_string(bytes_max) + " bytes");
    }
    return text;
  }
  [[nodiscard]] std::string text_or(const char* name, std::string otherwise) const {
    return has(name) ? text(name) : otherwise;
  }

  [[nodiscard]] std::int64_t integer(
      const char* name, std::int64_t lowest = 0,
      std::int64_t highest = std::numeric_limits<std::int64_t>::max()) const {
    const nlohmann::json& value = at(name);
    if (!value.is_number_integer()) wrong(name, "a whole number", value);
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() >
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      wrong(name, "a number that fits 64 bits", value);
    }
    const auto number = value.get<std::int64_t>();
    if (number < lowest || number > highest) {
      wrong(name, "between " + std::to_string(lowest) + " and " + std::to_string(highest), value);
    }
    return number;
  }
  [[nodiscard]] std::int64_t integer_or(const char* name, std::int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }

  // A finite number within bounds.
  [[nodiscard]] double real(const char* name, double lowest = 0, double highest = 1e15) const {
    const nlohmann::json& value = at(name);
    if (!value.is_number()) wrong(name, "a number", value);
    const double number = value.get<double>();
    if (!std::isfinite(number) || number < lowest || number > highest) {
      wrong(name, "a finite number in range", value);
    }
    return number;
  }
  [[nodiscard]] double real_or(const char* name, double otherwise) const {
    return has(name) ? real(name) : otherwise;
  }
  [[nodiscard]] std::optional<double> optional_real(const char* name) const {
    if (!has(name)) return std::nullopt;
    return real(name);
  }

  [[nodiscard]] bool flag_or(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    const nlohmann::json& value = at(name);
    if (!value.is_boolean()) wrong(name, "true or false", value);
    return value.get<bool>();
  }

  // One of an enumeration's words.
  template <typename Enum>
  [[nodiscard]] Enum word(const char* name, std::initializer_list<Enum> all) const {
    const std::string got = text(name);
    std::string words;
    for (const Enum value : all) {
      if (got == to_text(value)) return value;
      words += std::string(words.empty() ? "" : ", ") + to_text(value);
    }
    throw FieldError(std::string("field '") + name + "' is '" + got +
                     "', expected one of: " + words);
  }

 private:
  [[noreturn]] static void wrong(const char* name, const std::string& expected,
                                 const nlohmann::json& got) {
    std::string shown = got.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
    throw FieldError(std::string("field '") + name + "' must be " + expected + ", got " + shown);
  }
  const nlohmann::json& object_;
};

template <typename T>
void put_optional(nlohmann::json& object, const char* name, const std::optional<T>& value) {
  if (value) object[name] = *value;
}

}  // namespace fedqueue
