// cuSPARSELt beside kernels with a sparse A: its default algorithm, and the fastest that its search finds.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "judge_baseline.cuh"
#include "session.cuh"
#if defined(MMAGEN_WITH_CUSPARSELT)
#include "cusparselt.cuh"
#endif

namespace mmagen::test {
inline namespace v0_1 {

#if defined(MMAGEN_WITH_CUSPARSELT)
class SparseBaselines {
 public:
  /// Calls add(name, launch) for each algorithm; launch(i) multiplies the operands of calls[i]. Returns why there is none.
  template <class Subject, class Add>
  std::string gather(Problem const& problem, Distribution distribution, Operands<Subject> const& operands,
                     std::vector<Call> const& calls, cudaStream_t stream, Add const& add) {
    if (!std::is_same_v<typename Subject::Epilogue, LinearCombinationModel>) {
      return "no baseline: cuSPARSELt is not called with the operations of this epilogue. ";
    }
    try {
      SparseLtTypes const types = {Subject::A::kWord, Subject::B::kWord, Subject::Out::kWord, Subject::Acc::kWord};
      usual_ = std::make_unique<SparseLtMatmul>(types, calls[0], false, stream);
      best_ = std::make_unique<SparseLtMatmul>(types, calls[0], true, stream);
      for (Call const& call : calls) {
        usual_->prepare(call, stream);
        best_->prepare(call, stream);
      }
      Runner const runner = [this, stream](Call const& call) { best_->run(call, stream); };
      Outcome const outcome = judge_baseline<Subject>(runner, problem, distribution, operands, stream);
      if (outcome.disposition != Disposition::kPassed) {
        return "no baseline, cuSPARSELt's result does not agree: " + outcome.reason;
      }
      add("cusparseLt_default", [this, &calls, stream](int set) { usual_->run(calls[static_cast<std::size_t>(set)], stream); });
      add("cusparseLt_best", [this, &calls, stream](int set) { best_->run(calls[static_cast<std::size_t>(set)], stream); });
      return "";
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      return "no baseline: " + failure.reason + ". ";
    }
  }

 private:
  std::unique_ptr<SparseLtMatmul> usual_, best_;
};
#else
class SparseBaselines {
 public:
  template <class... Args>
  std::string gather(Args const&...) {
    return "no baseline: cuSPARSELt was not found. ";
  }
};
#endif

}  // namespace v0_1
}  // namespace mmagen::test
