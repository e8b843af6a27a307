#include "fedclient/link/transport.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <thread>

#include "core/base/text.h"
#include "fedclient/link/certificates.h"
#include "fedclient/link/proxy.h"

namespace fedqueue {
namespace {

// A status document of many facilities is longer than a message.
constexpr std::size_t answer_bytes_max = 16u << 20;
constexpr long receive_buffer_bytes = 512L << 10;  // the most that libcurl 7 takes
constexpr long send_buffer_bytes = 2L << 20;       // the same
constexpr auto pause_slice = std::chrono::milliseconds(50);

struct Url {
  std::string host;
  std::string port;
};

Result<Url> parse_url(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return Error{Code::usage, "the server's URL '" + without_credentials(text) + "' " + why,
                 "Write it as https://HOST:PORT."};
  };
  if (text.rfind("http://", 0) == 0) {
    return Error{Code::plaintext,
                 "the server's URL '" + without_credentials(text) +
                     "' asks for plain HTTP, but the server speaks TLS only",
                 "Write it as https://HOST:PORT."};
  }
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) {
    return wrong("is not a URL");
  }
  const auto part = [&](CURLUPart which, unsigned flags) {
    char* value = nullptr;
    std::string copy;
    if (curl_url_get(url.get(), which, &value, flags) == CURLUE_OK) copy = value;
    curl_free(value);
    return copy;
  };
  if (part(CURLUPART_SCHEME, 0) != "https") return wrong("does not begin with https://");
  if (!part(CURLUPART_USER, 0).empty()) return wrong("must not contain a user name");
  const std::string path = part(CURLUPART_PATH, 0);
  if (!path.empty() && path != "/") return wrong("must end after the port");
  return Url{part(CURLUPART_HOST, 0), part(CURLUPART_PORT, CURLU_DEFAULT_PORT)};
}

long milliseconds(Duration duration) {
  return std::max<long>(1, std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// What one running exchange needs in libcurl's callbacks.
struct Running {
  const Exchange* exchange = nullptr;
  Answer answer;
  std::optional<Error> error;  // of our own side: reading the file, writing it
  bool too_long = false;
  bool cut = false;  // the sink had enough
};

}  // namespace

struct Transport::State {
  LinkConfig config;
  Url url;
  std::string base;
  KitCertificates kit;
  ProxyChoice proxy;
  CURL* handle = nullptr;
  char text[CURL_ERROR_SIZE] = {};
  PeerCertificate peer;
  std::string proxy_used;
  bool proxy_logged = false;

  ~State() {
    if (handle != nullptr) curl_easy_cleanup(handle);
  }

  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(handle, option, value);
  }

  void set_common();
  void set_request(const Exchange& exchange, Running& running, curl_slist*& headers);
  Fault fault(CURLcode code, bool through_proxy);
  bool note_proxy();
};

namespace {

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* pointer) {
  auto& running = *static_cast<Running*>(pointer);
  const std::string_view line(data, size * count);
  if (line.rfind("HTTP/", 0) == 0) {  // the answer of a proxy or an interim one came before
    running.answer.headers.clear();
    const std::size_t blank = line.find(' ');
    const std::optional<std::int64_t> status =
        parse_integer(line.substr(std::min(blank, line.size() - 1) + 1, 3));
    running.answer.status = static_cast<int>(status.value_or(0));
    return size * count;
  }
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string name(trim(line.substr(0, colon)));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    running.answer.headers[name] = std::string(trim(line.substr(colon + 1)));
  }
  return size * count;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* pointer) {
  auto& running = *static_cast<Running*>(pointer);
  const std::size_t bytes = size * count;
  if (running.exchange->sink && running.answer.ok()) {
    const bool more =
        running.exchange->sink(running.answer, std::as_bytes(std::span<const char>(data, bytes)));
    if (more) return bytes;
    running.cut = true;
    return bytes == 0 ? 1 : 0;
  }
  if (running.answer.body.size() + bytes > answer_bytes_max) {
    running.too_long = true;
    return 0;
  }
  running.answer.body.append(data, bytes);
  return bytes;
}

std::size_t on_read(char* data, std::size_t size, std::size_t count, void* pointer) {
  auto& running = *static_cast<Running*>(pointer);
  Result<std::size_t> bytes =
      running.exchange->source->read(std::as_writable_bytes(std::span<char>(data, size * count)));
  if (bytes) return *bytes;
  running.error = bytes.error();
  return CURL_READFUNC_ABORT;
}

// libcurl would send the whole range once more over a new connection when a kept one dies. The
// server may have kept a part of it by then, so the upload asks again instead.
int on_seek(void*, curl_off_t, int) { return CURL_SEEKFUNC_FAIL; }

int on_progress(void* pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const LinkConfig*>(pointer)->interrupted() ? 1 : 0;
}

CURLcode on_context(CURL*, void* context, void* pointer) {
  watch_handshakes(context, static_cast<PeerCertificate*>(pointer));
  return CURLE_OK;
}

}  // namespace

void Transport::State::set_common() {
  // Forgets the last exchange's options; connections and names are kept.
  curl_easy_reset(handle);
  text[0] = 0;
  peer = PeerCertificate();
  set(CURLOPT_ERRORBUFFER, text);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_TCP_NODELAY, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_BUFFERSIZE, receive_buffer_bytes);
  set(CURLOPT_UPLOAD_BUFFERSIZE, send_buffer_bytes);
  set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds(config.connect_timeout));
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set(CURLOPT_CAINFO, config.ca.c_str());
  set(CURLOPT_CAPATH, static_cast<char*>(nullptr));  // the system's authorities have no say here
  set(CURLOPT_SSLCERT, config.certificate.c_str());
  set(CURLOPT_SSLKEY, config.key.c_str());
  // New connections are rare, and a full handshake looks at both certificates again.
  set(CURLOPT_SSL_SESSIONID_CACHE, 0L);
  set(CURLOPT_SSL_CTX_FUNCTION, on_context);
  set(CURLOPT_SSL_CTX_DATA, &peer);
  if (!config.proxy.empty()) {
    set(CURLOPT_PROXY, config.proxy == "direct" ? "" : config.proxy.c_str());
  }
  if (!config.no_proxy.empty()) set(CURLOPT_NOPROXY, config.no_proxy.c_str());
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, &config);
}

void Transport::State::set_request(const Exchange& exchange, Running& running,
                                   curl_slist*& headers) {
  const std::string url_text = exchange.path.empty() ? base : base + "/" + exchange.path;
  set(CURLOPT_URL, url_text.c_str());
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, &running);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &running);
  if (exchange.endless) {
    // Watching may be quiet for hours.
  } else if (exchange.transfer) {
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, std::max<long>(1, milliseconds(config.stall_timeout) / 1000));
  } else {
    set(CURLOPT_TIMEOUT_MS, milliseconds(config.answer_timeout));
  }
  const auto add = [&](const std::string& line) {
    headers = curl_slist_append(headers, line.c_str());
  };
  add("Expect:");  // the probe before an upload has told already whether it is welcome
  add("Accept: application/json");
  for (const std::string& line : exchange.headers) add(line);
  if (exchange.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (exchange.source != nullptr) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, on_read);
    set(CURLOPT_READDATA, &running);
    set(CURLOPT_SEEKFUNCTION, on_seek);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(exchange.source_bytes));
  } else if (exchange.method != "GET") {
    add("Content-Type: application/json");
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.body.size()));
    set(CURLOPT_POSTFIELDS, exchange.body.c_str());
    set(CURLOPT_CUSTOMREQUEST, exchange.method.c_str());
  }
  set(CURLOPT_HTTPHEADER, headers);
}

// True if the connection goes through the proxy.
bool Transport::State::note_proxy() {
  if (proxy.host.empty()) return false;
  long connect_code = 0;
  long port = 0;
  curl_easy_getinfo(handle, CURLINFO_HTTP_CONNECTCODE, &connect_code);
  curl_easy_getinfo(handle, CURLINFO_PRIMARY_PORT, &port);
  const bool used = connect_code != 0 || std::to_string(port) == proxy.port;
  proxy_used = used ? proxy.shown() : "";
  if (!proxy_logged && (used || port != 0)) {
    proxy_logged = true;
    if (used) {
      config.log.info("the server is reached through a proxy",
                      {{"proxy", proxy.shown()}, {"from", proxy.origin}});
    } else {
      config.log.info("the server is reached directly, as no_proxy says", {{"server", url.host}});
    }
  }
  return used;
}

Fault Transport::State::fault(CURLcode code, bool through_proxy) {
  Fault result;
  result.curl_code = code;
  result.text = text[0] != 0 ? text : curl_easy_strerror(code);
  result.host = url.host;
  result.port = url.port;
  const bool about_proxy =
      !proxy.host.empty() &&
      (result.text.find(proxy.host + " port " + proxy.port) != std::string::npos ||
       result.text.find("proxy") != std::string::npos);
  if (through_proxy || about_proxy) result.proxy = proxy.shown();
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_HTTP_CONNECTCODE, &status);
  result.proxy_status = status >= 300 ? static_cast<int>(status) : 0;
  result.peer = peer;
  result.trusted_ca = kit.ca_subject;
  result.own_subject = kit.own_subject;
  result.own_issuer = kit.own_issuer;
  result.own_valid_to = kit.own_valid_to;
  result.certificate_path = config.certificate.string();
  return result;
}

std::string Answer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

Transport::Transport(std::unique_ptr<State> state) : state_(std::move(state)) {}
Transport::~Transport() = default;

Result<std::unique_ptr<Transport>> Transport::create(const LinkConfig& config) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  auto state = std::make_unique<State>();
  state->config = config;
  if (!is_name(config.run.str())) {
    return Error{Code::usage, "'" + config.run.str() + "' cannot be the name of a run",
                 "Names are lower-case letters, digits and '-', at most 63."};
  }
  Result<Url> url = parse_url(config.server_url);
  if (!url) return url.error();
  state->url = *url;
  std::string root = config.server_url;
  while (!root.empty() && root.back() == '/') root.pop_back();
  state->base = root + "/v1/runs/" + config.run.str();
  Result<KitCertificates> kit = check_kit(config.ca, config.certificate, config.key);
  if (!kit) return kit.error();
  state->kit = *kit;
  state->proxy = choose_proxy(config.proxy);
  state->handle = curl_easy_init();
  if (state->handle == nullptr) return Error{Code::internal, "libcurl cannot be started", ""};
  return std::unique_ptr<Transport>(new Transport(std::move(state)));
}

Result<Answer> Transport::perform(const Exchange& exchange) {
  State& state = *state_;
  Running running;
  running.exchange = &exchange;
  curl_slist* headers = nullptr;
  state.set_common();
  state.set_request(exchange, running, headers);
  const CURLcode code = curl_easy_perform(state.handle);
  curl_slist_free_all(headers);
  const bool through_proxy = state.note_proxy();
  if (running.error) return *running.error;
  if (running.too_long) {
    return Error{Code::too_large, "the server's answer is longer than 16 MiB", ""};
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return Error{Code::try_again, "the exchange with " + state.url.host + " was interrupted", ""};
  }
  // A server that refuses an upload may answer and close before it has read all of it.
  const bool answered_early = exchange.source != nullptr && running.answer.status >= 300 &&
                              (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR);
  if (code == CURLE_OK || running.cut || answered_early) return std::move(running.answer);
  return fault_error(state.fault(code, through_proxy));
}

bool Transport::pause(Duration duration) {
  if (state_->config.pause) return state_->config.pause(duration);
  const auto until = std::chrono::steady_clock::now() + duration;
  while (!state_->config.interrupted()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) return true;
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(until - now, pause_slice));
  }
  return false;
}

const LinkConfig& Transport::config() const { return state_->config; }
const std::string& Transport::proxy_used() const { return state_->proxy_used; }

}  // namespace fedqueue
