#include "core/config/settings.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

bool numeric(Kind kind) {
  return kind == Kind::integer || kind == Kind::real || kind == Kind::seconds;
}

// As it must stand in a file to be read back as it is.
std::string file_value(const std::string& value) {
  const bool quote = value.empty() || trim(value) != value || value.front() == '"' ||
                     value.front() == '#' || value.find(" #") != std::string::npos;
  return quote ? '"' + value + '"' : value;
}

nlohmann::ordered_json json_value(const OptionSpec& option, const std::string& value) {
  switch (option.kind) {
    case Kind::integer:
      return parse_integer(value).value_or(0);
    case Kind::real:
    case Kind::seconds:
      return parse_real(value).value_or(0);
    case Kind::flag:
      return value == "true";
    default:
      return value;
  }
}

}  // namespace

const Settings::Entry* Settings::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

const Settings::Entry& Settings::declared(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) {
    std::fprintf(stderr, "option '%s' was never declared\n", std::string(name).c_str());
  }
  FEDQUEUE_ASSERT(entry != nullptr);
  return *entry;
}

const std::string& Settings::single(std::string_view name) const {
  const Entry& entry = declared(name);
  if (entry.values.empty() && entry.option.kind != Kind::flag) {
    std::fprintf(stderr, "option '%s' has no value\n", std::string(name).c_str());
  }
  FEDQUEUE_ASSERT(!entry.values.empty() && !entry.option.repeated);
  return entry.values.front();
}

const std::string& Settings::text(std::string_view name) const {
  static const std::string unset;
  const Entry& entry = declared(name);
  FEDQUEUE_ASSERT(entry.option.kind == Kind::text || entry.option.kind == Kind::path);
  return entry.values.empty() ? unset : single(name);
}

std::string Settings::text_of(std::string_view name) const {
  return join(declared(name).values, ",");
}

std::filesystem::path Settings::path(std::string_view name) const { return text(name); }

std::int64_t Settings::integer(std::string_view name) const {
  FEDQUEUE_ASSERT(declared(name).option.kind == Kind::integer);
  return *parse_integer(single(name));
}

double Settings::real(std::string_view name) const {
  FEDQUEUE_ASSERT(numeric(declared(name).option.kind));
  return *parse_real(single(name));
}

Duration Settings::duration(std::string_view name) const {
  FEDQUEUE_ASSERT(declared(name).option.kind == Kind::seconds);
  return from_seconds(real(name));
}

bool Settings::flag(std::string_view name) const {
  const Entry& entry = declared(name);
  FEDQUEUE_ASSERT(entry.option.kind == Kind::flag);
  return !entry.values.empty() && entry.values.front() == "true";
}

std::vector<std::string> Settings::list(std::string_view name) const {
  FEDQUEUE_ASSERT(declared(name).option.repeated);
  return declared(name).values;
}

bool Settings::has(std::string_view name) const {
  const Entry* entry = find(name);
  return entry != nullptr && !entry->values.empty();
}

bool Settings::given(std::string_view name) const {
  const Entry* entry = find(name);
  return entry != nullptr && entry->given;
}

std::string Settings::origin(std::string_view name) const {
  const Entry* entry = find(name);
  return entry == nullptr ? "" : entry->origin;
}

std::vector<std::string> Settings::names_under(std::string_view prefix) const {
  std::vector<std::string> names;
  const std::string start = std::string(prefix) + ".";
  for (const auto& [name, entry] : entries_) {
    if (!name.starts_with(start) || !entry.option.name.starts_with(start + "*")) continue;
    std::string own = name.substr(start.size());
    own = own.substr(0, own.find('.'));
    if (names.empty() || names.back() != own) names.push_back(std::move(own));
  }
  return names;
}

std::string Settings::argument(std::size_t index) const {
  return index < arguments_.size() ? arguments_[index] : std::string();
}

std::string Settings::print_text() const {
  struct Line {
    std::string text;
    std::string origin;
  };
  std::vector<Line> lines;
  std::size_t width = 0;
  for (const std::string& name : order_) {
    const Entry& entry = declared(name);
    if (!entry.option.in_files) continue;
    if (entry.values.empty()) {
      lines.push_back({"# " + name + " =", "unset"});
    } else {
      lines.push_back({name + " = " + file_value(join(entry.values, ", ")), entry.origin});
    }
    if (lines.back().text.size() <= 48) width = std::max(width, lines.back().text.size());
  }
  std::string text;
  for (Line& line : lines) {
    if (line.text.size() < width) line.text.resize(width, ' ');
    text += line.text + "  # " + line.origin + "\n";
  }
  return text;
}

std::string Settings::print_json() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const std::string& name : order_) {
    const Entry& entry = declared(name);
    if (!entry.option.in_files) continue;
    nlohmann::ordered_json value;
    if (entry.option.repeated) {
      value = nlohmann::ordered_json::array();
      for (const std::string& one : entry.values) value.push_back(json_value(entry.option, one));
    } else if (!entry.values.empty()) {
      value = json_value(entry.option, entry.values.front());
    }
    all[name] = {{"value", value}, {"origin", entry.values.empty() ? "unset" : entry.origin}};
  }
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace fedqueue
