// Which proxy libcurl will use for the server, so that it can be named in the log and in errors.
//
// libcurl itself reads https_proxy, HTTPS_PROXY, all_proxy, ALL_PROXY and no_proxy; this follows
// its order. Whether no_proxy took the server out is seen from the connection.
#pragma once

#include <string>

namespace fedqueue {

struct ProxyChoice {
  std::string scheme;  // http, socks5h …
  std::string host;    // empty: no proxy
  std::string port;
  std::string origin;  // "https_proxy", "configuration"

  // scheme://host:port, without credentials.
  [[nodiscard]] std::string shown() const;
};

// `configured` is the link's own setting: empty, "direct" or a URL.
[[nodiscard]] ProxyChoice choose_proxy(const std::string& configured);

// The parts of a proxy's URL; http and port 1080 where it says nothing, as libcurl does.
[[nodiscard]] ProxyChoice parse_proxy(const std::string& url, const std::string& origin);

}  // namespace fedqueue
