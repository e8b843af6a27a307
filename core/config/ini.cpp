#include "core/config/ini.h"

#include "core/base/text.h"

namespace fedqueue {
namespace {

Error fault(const std::string& file_name, int line, const std::string& why) {
  return {Code::usage, file_name + " line " + std::to_string(line) + ": " + why,
          "A line is '[section]', 'name = value', or a comment that starts with '#'."};
}

// The value without its comment and quotes; false if a quote is not closed or something follows it.
bool plain_value(std::string_view text, std::string& value) {
  text = trim(text);
  if (!text.empty() && text.front() == '"') {
    const std::size_t end = text.find('"', 1);
    if (end == std::string_view::npos) return false;
    const std::string_view rest = trim(text.substr(end + 1));
    value = text.substr(1, end - 1);
    return rest.empty() || rest.front() == '#';
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) {
      text = trim(text.substr(0, i));
      break;
    }
  }
  value = text;
  return true;
}

}  // namespace

Result<std::vector<IniEntry>> parse_ini(std::string_view text, const std::string& file_name) {
  std::vector<IniEntry> entries;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string section;
  int line_number = 0;
  for (const std::string& whole_line : split(text, '\n')) {
    ++line_number;
    const std::string_view line = trim(whole_line);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (!is_utf8(line)) return fault(file_name, line_number, "the bytes are not UTF-8 text");
    if (line.front() == '[') {
      const std::size_t end = line.find(']');
      const std::string_view rest =
          end == std::string_view::npos ? line : trim(line.substr(end + 1));
      const std::string_view name =
          end == std::string_view::npos ? "" : trim(line.substr(1, end - 1));
      if (name.empty() || (!rest.empty() && rest.front() != '#')) {
        return fault(file_name, line_number,
                     "'" + std::string(line) + "' is not a section of the form [name]");
      }
      section = std::string(name) + ".";
      continue;
    }
    const std::size_t equals = line.find('=');
    const std::string_view key = trim(line.substr(0, equals));
    if (equals == std::string_view::npos || key.empty()) {
      return fault(file_name, line_number, "'" + std::string(line) + "' is not 'name = value'");
    }
    IniEntry entry{section + std::string(key), "", line_number};
    if (!plain_value(line.substr(equals + 1), entry.value)) {
      return fault(file_name, line_number, "the value of " + entry.name + " has a broken quote");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace fedqueue
