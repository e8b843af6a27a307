#include "core/config/option.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/base/ids.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

std::string fixed_part(std::string_view part) {
  std::string text(part);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

bool is_key(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == '-';
  });
}

std::string number_text(double value) {
  char text[400];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr;
  return std::string(text, end);
}

std::optional<std::string> flag_text(std::string_view value) {
  std::string lower(value);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* word : {"true", "yes", "on", "1"}) {
    if (lower == word) return "true";
  }
  for (const char* word : {"false", "no", "off", "0"}) {
    if (lower == word) return "false";
  }
  return std::nullopt;
}

std::optional<double> parse_seconds(std::string_view value) {
  struct Unit {
    std::string_view suffix;
    double seconds;
  };
  // "ms" before "s", which it ends with.
  constexpr Unit units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  for (const Unit& unit : units) {
    if (!value.ends_with(unit.suffix)) continue;
    const std::string_view number = trim(value.substr(0, value.size() - unit.suffix.size()));
    const std::optional<double> parsed = parse_real(number);
    if (!parsed) return std::nullopt;
    return *parsed * unit.seconds;
  }
  return parse_real(value);
}

double lowest(const OptionSpec& option) {
  return option.kind == Kind::seconds ? std::max(option.minimum, 0.0) : option.minimum;
}

bool in_range(const OptionSpec& option, double value) {
  return value >= lowest(option) && value <= option.maximum;
}

std::string range_text(const OptionSpec& option) {
  const bool below = std::isfinite(lowest(option));
  const bool above = std::isfinite(option.maximum);
  if (below && above) {
    return " from " + number_text(lowest(option)) + " to " + number_text(option.maximum);
  }
  if (below) return ", at least " + number_text(lowest(option));
  if (above) return ", at most " + number_text(option.maximum);
  return "";
}

std::optional<std::string> checked_text(const OptionSpec& option, std::string_view value) {
  switch (option.kind) {
    case Kind::text:
      if (!option.choices.empty() &&
          std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end()) {
        return std::nullopt;
      }
      return std::string(value);
    case Kind::path:
      if (value.find('\0') != std::string_view::npos) return std::nullopt;
      return std::string(value);
    case Kind::flag:
      return flag_text(value);
    case Kind::integer: {
      const std::optional<std::int64_t> number = parse_integer(value);
      if (!number || !in_range(option, static_cast<double>(*number))) return std::nullopt;
      return std::to_string(*number);
    }
    case Kind::real: {
      const std::optional<double> number = parse_real(value);
      if (!number || !in_range(option, *number)) return std::nullopt;
      return std::string(value);
    }
    case Kind::seconds: {
      const std::optional<double> seconds = parse_seconds(value);
      if (!seconds || !in_range(option, *seconds)) return std::nullopt;
      return number_text(*seconds);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<OptionSpec> all_of(std::initializer_list<std::vector<OptionSpec>> parts) {
  std::vector<OptionSpec> all;
  for (const std::vector<OptionSpec>& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<std::string> option_names(const std::vector<OptionSpec>& options) {
  std::vector<std::string> names;
  names.reserve(options.size());
  for (const OptionSpec& option : options) names.push_back(option.name);
  return names;
}

std::string environment_name(std::string_view option_name) {
  std::string name = "FEDQUEUE_";
  for (const char c : option_name) {
    if (c == '.') {
      name += "__";
    } else if (c == '-') {
      name += '_';
    } else {
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  return name;
}

std::string allowed_values(const OptionSpec& option) {
  switch (option.kind) {
    case Kind::text:
      return option.choices.empty() ? "text" : "one of " + join(option.choices, ", ");
    case Kind::path:
      return "a path";
    case Kind::flag:
      return "true or false";
    case Kind::integer:
      return "a whole number" + range_text(option);
    case Kind::real:
      return "a number" + range_text(option);
    case Kind::seconds:
      return "a duration such as 90s, 15m or 2h" +
             (lowest(option) == 0 && std::isinf(option.maximum)
                  ? std::string()
                  : range_text(option) + " (in seconds)");
  }
  return "";
}

Result<std::string> checked_value(const OptionSpec& option, std::string_view value) {
  std::optional<std::string> checked = checked_text(option, trim(value));
  if (checked) return std::move(*checked);
  return Error{
      Code::usage,
      option.name + " is '" + std::string(value) + "'; it must be " + allowed_values(option), ""};
}

bool names_option(std::string_view name, const std::string& option_name) {
  if (name == option_name) return true;
  const std::vector<std::string> parts = split(name, '.');
  const std::vector<std::string> wanted = split(option_name, '.');
  if (parts.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const bool same = wanted[i] != "*" ? fixed_part(parts[i]) == fixed_part(wanted[i])
                      : last           ? is_key(parts[i])
                                       : is_name(parts[i]);
    if (!same) return false;
  }
  return true;
}

}  // namespace fedqueue
