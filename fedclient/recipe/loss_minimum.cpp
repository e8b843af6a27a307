#include "fedclient/recipe/loss_minimum.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/assert.h"
#include "core/base/prng.h"

namespace fedqueue {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kLengthScale = 0.2;
constexpr double kKernelWidth = 0.05;
constexpr double kLeastNoise = 1e-4;
constexpr double kConfidence = 0.95;
constexpr double kJitter = 1e-4;  // added to the variance of a difference
constexpr int kPredictions = 5;
constexpr int kVotesToPass = 3;
constexpr Index kPlaces = 500;
constexpr std::size_t kPointsToFit = 100;
constexpr std::size_t kPointsToPredict = 200;
constexpr int kFitSteps = 100;
constexpr double kFitRate = 0.01;

struct Points {
  VectorXd x, y;
};

double softplus(double value) { return value > 30 ? value : std::log1p(std::exp(value)); }
double slope_of_softplus(double value) { return 1 / (1 + std::exp(-value)); }

double normal_distribution(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

Points draw(std::span<const double> losses, std::size_t at_most, Prng& prng) {
  std::vector<std::size_t> chosen(losses.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  const std::size_t count = std::min(at_most, losses.size());
  for (std::size_t i = 0; i < count; ++i)
    std::swap(chosen[i], chosen[i + prng.below(chosen.size() - i)]);
  Points points{VectorXd(static_cast<Index>(count)), VectorXd(static_cast<Index>(count))};
  const double last = static_cast<double>(losses.size() - 1);
  for (std::size_t i = 0; i < count; ++i) {
    points.x[static_cast<Index>(i)] = static_cast<double>(chosen[i]) / last;
    points.y[static_cast<Index>(i)] = losses[chosen[i]];
  }
  return points;
}

MatrixXd correlation(const VectorXd& a, const VectorXd& b) {
  MatrixXd result(a.size(), b.size());
  for (Index j = 0; j < b.size(); ++j) {
    result.col(j) = (-(a.array() - b[j]).square() / (2 * kLengthScale * kLengthScale)).exp();
  }
  return result;
}

Eigen::LLT<MatrixXd> factor(const MatrixXd& correlations, double scale, double noise) {
  MatrixXd covariance = scale * correlations;
  covariance.diagonal().array() += noise;
  return Eigen::LLT<MatrixXd>(covariance);
}

// Adam on the negative log marginal likelihood per point. In the eigenvectors of the correlations
// the covariance s·R + σ²·I is diagonal, whatever s and σ² are, so that a step costs next to
// nothing.
double fit(const Points& points, GaussianProcess& process) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(correlation(points.x, points.x));
  const Eigen::ArrayXd correlations = solver.eigenvalues().array().max(0);
  const Eigen::ArrayXd losses = (solver.eigenvectors().transpose() * points.y).array();
  const Eigen::ArrayXd ones = solver.eigenvectors().colwise().sum().transpose().array();
  const auto count = static_cast<double>(points.x.size());
  double mean = points.y.mean();
  for (int step = 0; step < kFitSteps; ++step) {
    const double scale = softplus(process.scale);
    const double noise = softplus(process.noise) + kLeastNoise;
    const Eigen::ArrayXd inverse = (scale * correlations + noise).inverse();
    const Eigen::ArrayXd weights = inverse * (losses - mean * ones);
    const double by_scale = (correlations * (inverse - weights.square())).sum();
    const double by_noise = (inverse - weights.square()).sum();
    const std::array<double, 3> gradient = {
        -(ones * weights).sum() / count, by_scale * slope_of_softplus(process.scale) / (2 * count),
        by_noise * slope_of_softplus(process.noise) / (2 * count)};
    ++process.adam_steps;
    const auto steps = static_cast<double>(process.adam_steps);
    double* const parameters[] = {&mean, &process.scale, &process.noise};
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      process.first[i] += 0.1 * (gradient[i] - process.first[i]);
      process.second[i] += 0.001 * (gradient[i] * gradient[i] - process.second[i]);
      const double first = process.first[i] / (1 - std::pow(0.9, steps));
      const double second = process.second[i] / (1 - std::pow(0.999, steps));
      *parameters[i] -= kFitRate * first / (std::sqrt(second) + 1e-8);
    }
  }
  return mean;
}

}  // namespace

double probability_below(double mean, double mean_last, double variance, double variance_last,
                         double covariance) {
  const double of_difference = std::max(0.0, variance + variance_last - 2 * covariance) + kJitter;
  return normal_distribution((mean_last - mean) / std::sqrt(of_difference));
}

LossMinimum gaussian_process_minimum(std::span<const double> losses, GaussianProcess& process,
                                     std::uint64_t seed) {
  FEDQUEUE_ASSERT(losses.size() >= 3);
  Prng prng(seed);
  const double mean = fit(draw(losses, kPointsToFit, prng), process);
  const double scale = softplus(process.scale);
  const double noise = softplus(process.noise) + kLeastNoise;
  const VectorXd places = VectorXd::LinSpaced(kPlaces, 0, 1);
  LossMinimum result;
  int votes = 0;
  for (std::size_t k = 0; k < kPredictions; ++k) {
    const Points points = draw(losses, kPointsToPredict, prng);
    const Eigen::LLT<MatrixXd> root = factor(correlation(points.x, points.x), scale, noise);
    const MatrixXd between = scale * correlation(points.x, places);
    const VectorXd weights = root.solve((points.y.array() - mean).matrix());
    const VectorXd means = (between.transpose() * weights).array() + mean;
    // Posterior covariances S = s·R − VᵀV, of which the diagonal and the last column matter.
    const MatrixXd half = root.matrixL().solve(between);
    const VectorXd last = half.col(kPlaces - 1);
    const double variance_last = scale - last.squaredNorm();
    double most = 0;
    for (Index i = 0; i < kPlaces; ++i) {
      const double apart = (places[i] - 1) / kLengthScale;
      const double covariance = scale * std::exp(-apart * apart / 2) - half.col(i).dot(last);
      most = std::max(
          most, probability_below(means[i], means[kPlaces - 1], scale - half.col(i).squaredNorm(),
                                  variance_last, covariance));
    }
    if (most > kConfidence) ++votes;
    Index lowest = 0;
    means.minCoeff(&lowest);
    result.places[k] = places[lowest];
  }
  result.passed = votes >= kVotesToPass;
  return result;
}

LossMinimum kernel_minimum(std::span<const double> losses) {
  FEDQUEUE_ASSERT(losses.size() >= 3);
  struct Smoothed {
    double mean = 0;
    double variance = 0;  // of the mean
  };
  const double end = static_cast<double>(losses.size() - 1);
  const auto smooth = [&](double x) {
    double weight = 0;
    double squared_weight = 0;
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double apart = (static_cast<double>(i) / end - x) / kKernelWidth;
      const double w = std::exp(-apart * apart / 2);
      weight += w;
      squared_weight += w * w;
      sum += w * losses[i];
      squares += w * losses[i] * losses[i];
    }
    const double mean = sum / weight;
    const double effective = weight * weight / squared_weight;
    const double spread = std::max(0.0, squares / weight - mean * mean);
    return Smoothed{mean, spread / std::max(effective - 1, 1.0)};
  };
  constexpr int kBins = 100;
  Smoothed lowest{std::numeric_limits<double>::infinity(), 0};
  double place = 0;
  Smoothed last;
  for (int bin = 0; bin <= kBins; ++bin) {
    const double x = static_cast<double>(bin) / kBins;
    last = smooth(x);
    if (last.mean < lowest.mean) {
      lowest = last;
      place = x;
    }
  }
  LossMinimum result;
  result.places.fill(place);
  const double deviation = std::sqrt(lowest.variance + last.variance);
  result.passed =
      last.mean > lowest.mean &&
      normal_distribution((last.mean - lowest.mean) / std::max(deviation, 1e-12)) > kConfidence;
  return result;
}

}  // namespace fedqueue
