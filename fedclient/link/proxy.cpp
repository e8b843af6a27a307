#include "fedclient/link/proxy.h"

#include <curl/curl.h>

#include <cstdlib>
#include <memory>

namespace fedqueue {

std::string ProxyChoice::shown() const {
  return host.empty() ? "" : scheme + "://" + host + ":" + port;
}

ProxyChoice parse_proxy(const std::string& text, const std::string& origin) {
  ProxyChoice choice;
  choice.origin = origin;
  const std::string full = text.find("://") == std::string::npos ? "http://" + text : text;
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, full.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return choice;
  }
  const auto part = [&](CURLUPart which) {
    char* value = nullptr;
    std::string copy;
    if (curl_url_get(url.get(), which, &value, 0) == CURLUE_OK) copy = value;
    curl_free(value);
    return copy;
  };
  choice.scheme = part(CURLUPART_SCHEME);
  choice.host = part(CURLUPART_HOST);
  choice.port = part(CURLUPART_PORT);
  if (choice.port.empty()) choice.port = choice.scheme == "https" ? "443" : "1080";
  return choice;
}

ProxyChoice choose_proxy(const std::string& configured) {
  if (configured == "direct") return {};
  if (!configured.empty()) return parse_proxy(configured, "configuration");
  for (const char* name : {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && value[0] != 0) return parse_proxy(value, name);
  }
  return {};
}

}  // namespace fedqueue
