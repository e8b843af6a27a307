#include "fedserver/http/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <chrono>
#include <csignal>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include "fedserver/http/connection.h"
#include "fedserver/http/service.h"

namespace fedqueue::http {
namespace {

using asio::ip::tcp;

constexpr auto clock_interval = std::chrono::milliseconds(500);
constexpr auto certificates_interval = std::chrono::seconds(2);
constexpr auto accept_pause = std::chrono::milliseconds(100);
constexpr auto expiry_interval = std::chrono::hours(24);
constexpr auto expiry_notice = std::chrono::days(30);
constexpr rlim_t other_descriptors = 512;  // files, the journal, the registry
constexpr auto stop_time = std::chrono::seconds(30);

Result<tcp::acceptor> listen_on(asio::io_context& context, const std::string& address,
                                std::uint16_t port) {
  const std::string where = "'" + address + "' port " + std::to_string(port);
  boost::system::error_code fault;
  const asio::ip::address parsed = asio::ip::make_address(address, fault);
  if (fault) {
    return Error{Code::usage, "listen on " + where + ": this is no IP address",
                 "Give an address such as '::' (all, IPv4 too), '0.0.0.0' or '127.0.0.1'."};
  }
  tcp::acceptor acceptor(context);
  const tcp::endpoint endpoint(parsed, port);
  const auto attempt = [&] {
    if (acceptor.open(endpoint.protocol(), fault)) return;
    if (acceptor.set_option(asio::socket_base::reuse_address(true), fault)) return;
    if (parsed.is_v6() && acceptor.set_option(asio::ip::v6_only(false), fault)) return;
    if (acceptor.bind(endpoint, fault)) return;
    acceptor.listen(asio::socket_base::max_listen_connections, fault);
  };
  attempt();
  if (fault == asio::error::address_family_not_supported && address == "::") {
    return listen_on(context, "0.0.0.0", port);  // a machine without IPv6
  }
  if (fault) {
    return Error{Code::network, "listen on " + where + ": " + fault.message(),
                 "Choose another port, or stop the program that has it."};
  }
  return acceptor;
}

// The usual soft limit of 1024 descriptors is less than the connections that are allowed.
void raise_descriptor_limit(const HttpConfig& config, const Log& log) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(config.limits.connections_max) + other_descriptors;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted) {
    log.warning("the limit of open files allows fewer connections than configured",
                {{"limit", static_cast<std::uint64_t>(limit.rlim_cur)},
                 {"wanted", static_cast<std::uint64_t>(wanted)},
                 {"cure", "Raise 'ulimit -n' for the server."}});
  }
}

}  // namespace

struct HttpServer::Running {
  Running(HttpConfig config, HttpPorts the_ports, std::unique_ptr<TlsCertificates> tls)
      : service(std::move(config), std::move(the_ports), std::move(tls)),
        clock(service.requests_context) {}

  Task<void> accept(tcp::acceptor& acceptor, bool tls);
  Task<void> keep_time();
  void warn_of_expiry();
  void describe_metrics();
  void run();
  void stop();

  Service service;
  std::vector<tcp::acceptor> acceptors;  // TLS first
  std::vector<std::uint16_t> ports;      // theirs
  asio::steady_timer clock;
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
  std::vector<std::thread> threads;
  bool stopped = false;
};

Task<void> HttpServer::Running::accept(tcp::acceptor& acceptor, bool tls) {
  asio::steady_timer pause(service.requests_context);
  while (!service.ending) {
    boost::system::error_code fault;
    auto token = asio::redirect_error(asio::use_awaitable, fault);
    tcp::socket socket = co_await acceptor.async_accept(token);
    if (service.ending) co_return;
    if (fault) {
      // Out of descriptors, mostly: others must end first.
      service.log.warning("a connection could not be accepted", {{"reason", fault.message()}});
      pause.expires_after(accept_pause);
      co_await pause.async_wait(token);
      continue;
    }
    if (service.connections.size() >= service.config.limits.connections_max) {
      service.ports.metrics->add("fedqueue_connections_refused_total");
      continue;
    }
    asio::co_spawn(service.requests_context, serve_connection(service, std::move(socket), tls),
                   asio::detached);
  }
}

// A daily reminder while there is time to act.
void HttpServer::Running::warn_of_expiry() {
  const double left_s = std::difftime(service.tls->expires_at(), std::time(nullptr));
  if (left_s > std::chrono::duration<double>(expiry_notice).count()) return;
  service.log.warning("the server's certificate is about to expire",
                      {{"days_left", static_cast<int>(left_s / 86400)},
                       {"cure",
                        "Make a new one with 'fedserver cert server'; no restart is "
                        "needed."}});
}

// Ends what is overdue, wakes watchers, and looks at the certificates' files.
Task<void> HttpServer::Running::keep_time() {
  auto look_again = std::chrono::steady_clock::now() + certificates_interval;
  auto warn_again = std::chrono::steady_clock::now();
  while (!service.ending) {
    boost::system::error_code fault;
    auto token = asio::redirect_error(asio::use_awaitable, fault);
    clock.expires_after(clock_interval);
    co_await clock.async_wait(token);
    const auto now = std::chrono::steady_clock::now();
    service.connections.cut_overdue();
    service.ports.feed->expire(now);
    if (now >= warn_again) {
      warn_of_expiry();
      warn_again = now + expiry_interval;
    }
    if (now < look_again) continue;
    look_again = now + certificates_interval;
    auto look = [this] { return service.tls->refresh(); };
    (void)co_await offload(service.files(), std::move(look));
  }
}

void HttpServer::Running::describe_metrics() {
  Metrics& metrics = *service.ports.metrics;
  using Kind = Metrics::Kind;
  metrics.describe("fedqueue_http_requests_total", Kind::counter, "Requests by route and status.");
  metrics.describe("fedqueue_tls_failures_total", Kind::counter,
                   "Connections refused before any request, by reason.");
  metrics.describe("fedqueue_connections_refused_total", Kind::counter,
                   "Connections beyond the limit.");
  metrics.describe("fedqueue_update_bytes_total", Kind::counter, "Bytes of updates received.");
  metrics.describe("fedqueue_model_bytes_total", Kind::counter, "Bytes of models sent.");
  metrics.describe("fedqueue_connections", Kind::gauge, "Open connections.");
  metrics.describe("fedqueue_uploads", Kind::gauge, "Uploads in progress.");
  metrics.describe("fedqueue_watchers", Kind::gauge, "Waiting readers of the event stream.");
  metrics.describe("fedqueue_cert_expiry_seconds", Kind::gauge,
                   "Time until the server's certificate expires.");
}

void HttpServer::Running::run() {
  describe_metrics();
  for (asio::io_context* context :
       {&service.requests_context, &service.transfers_context, &service.files_context}) {
    guards.emplace_back(context->get_executor());
  }
  for (std::size_t i = 0; i < acceptors.size(); ++i) {
    asio::co_spawn(service.requests_context, accept(acceptors[i], i == 0), asio::detached);
  }
  asio::co_spawn(service.requests_context, keep_time(), asio::detached);
  const auto start_threads = [this](asio::io_context& context, unsigned count) {
    for (unsigned i = 0; i < std::max(1u, count); ++i) {
      threads.emplace_back([&context] { context.run(); });
    }
  };
  start_threads(service.requests_context, service.config.threads);
  start_threads(service.transfers_context, service.config.transfer_threads);
  start_threads(service.files_context, service.config.file_threads);
}

// Everything that waits is told to end, and then waited for; only then do the threads go.
void HttpServer::Running::stop() {
  if (std::exchange(stopped, true)) return;
  service.ending = true;
  asio::post(service.requests_context, [this] {
    for (tcp::acceptor& acceptor : acceptors) {
      boost::system::error_code ignored;
      acceptor.close(ignored);
    }
    clock.cancel();
  });
  service.desk.close();
  service.connections.cut_all();
  if (!service.connections.wait_empty(stop_time)) {
    service.log.warning("some connections did not end in time");
    service.requests_context.stop();
    service.transfers_context.stop();
    service.files_context.stop();
  }
  // Nothing is left that could wait: the threads run out of work.
  guards.clear();
  for (std::thread& thread : threads) thread.join();
}

HttpServer::HttpServer(std::unique_ptr<Running> running) : running_(std::move(running)) {}

HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpConfig config, HttpPorts ports) {
  (void)std::signal(SIGPIPE, SIG_IGN);
  Result<std::unique_ptr<TlsCertificates>> tls =
      TlsCertificates::load(config.tls, ports.log.for_component("http"));
  if (!tls) return tls.error();
  auto running = std::make_unique<Running>(std::move(config), std::move(ports), std::move(*tls));
  Service& service = running->service;
  const HttpConfig& settings = service.config;
  Result<tcp::acceptor> acceptor =
      listen_on(service.requests_context, settings.address, settings.port);
  if (!acceptor) return acceptor.error();
  running->acceptors.push_back(std::move(*acceptor));
  if (settings.status_port) {
    boost::system::error_code fault;
    const auto address = asio::ip::make_address(settings.status_address, fault);
    if (fault || !address.is_loopback()) {
      return Error{Code::usage,
                   "listen for status requests on '" + settings.status_address +
                       "': only 127.0.0.1 and ::1 are allowed, since this listener asks for no "
                       "certificate",
                   "Use the TLS address with an observer's certificate from other machines."};
    }
    acceptor = listen_on(service.requests_context, settings.status_address, *settings.status_port);
    if (!acceptor) return acceptor.error();
    running->acceptors.push_back(std::move(*acceptor));
  }
  for (const tcp::acceptor& one : running->acceptors) {
    running->ports.push_back(one.local_endpoint().port());
  }
  raise_descriptor_limit(settings, service.log);
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(running)));
  server->running_->run();
  return server;
}

std::uint16_t HttpServer::port() const { return running_->ports[0]; }

std::uint16_t HttpServer::status_port() const {
  return running_->ports.size() < 2 ? std::uint16_t{0} : running_->ports[1];
}

void HttpServer::stop() { running_->stop(); }

}  // namespace fedqueue::http
