// Elementwise functions of truncated power series; see composition.py for the mathematics.
//
// Elements go through in blocks that stay in the cache, and each step of the algebra is one loop over a block.

#define VECTOR _Pragma("omp simd")

namespace {

constexpr long BLOCK = 128;
constexpr int MOST = 16;  // coefficients of a series, and of a function

struct Shape {
    long elements, parts, order, steps, threads;
};

template <typename T> using Rows = T[MOST][BLOCK];

// y' = 1 - y^2, so (k + 1) y_{k+1} = -sum_i y_i y_{k-i} for k > 0.
template <typename T> void tanh_series(Rows<T>& c, long order, long n) {
    VECTOR for (long e = 0; e < n; ++e) c[1][e] = 1 - c[0][e] * c[0][e];
    for (long k = 1; k < order; ++k) {
        const T scale = T(-1) / T(k + 1);
        VECTOR for (long e = 0; e < n; ++e) c[k + 1][e] = 2 * scale * c[0][e] * c[k][e];
        for (long i = 1; i < k; ++i)
            VECTOR for (long e = 0; e < n; ++e) c[k + 1][e] += scale * c[i][e] * c[k - i][e];
    }
}

// coefficients: of the function, order + 2 of them (order + 1 without slope); or tanh of the value, and then null.
// steps: (p, i, j, k) means that power p has in its row k the product of row i of u and row j of power p - 1.
template <typename T>
void forward(const Shape& s, const T* u, const T* const* coefficients, const long* steps, T* out, T* slope) {
    const long blocks = (s.elements + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(s.threads) if (s.threads > 1)
    for (long b = 0; b < blocks; ++b) {
        const long at = b * BLOCK, n = s.elements - at < BLOCK ? s.elements - at : BLOCK;
        Rows<T> c, before, power;
        const bool is_tanh = coefficients[1] == nullptr;
        for (long p = 0; p < (is_tanh ? 1 : s.order + (slope ? 2 : 1)); ++p)
            VECTOR for (long e = 0; e < n; ++e) c[p][e] = coefficients[p][at + e];
        if (is_tanh) tanh_series<T>(c, s.order, n);
        VECTOR for (long e = 0; e < n; ++e) out[at + e] = c[0][e];
        if (slope) VECTOR for (long e = 0; e < n; ++e) slope[at + e] = c[1][e];
        for (long k = 1; k < s.parts; ++k) {
            const T* from = u + k * s.elements + at;
            T *to = out + k * s.elements + at, *tilt = slope + k * s.elements + at;
            VECTOR for (long e = 0; e < n; ++e) before[k][e] = from[e], to[e] = c[1][e] * from[e];
            if (slope) VECTOR for (long e = 0; e < n; ++e) tilt[e] = 2 * c[2][e] * from[e];
        }
        long step = 0;
        for (long p = 2; p <= s.order; ++p) {
            for (long k = 0; k < s.parts; ++k)
                VECTOR for (long e = 0; e < n; ++e) power[k][e] = 0;
            for (; step < s.steps && steps[4 * step] == p; ++step) {
                const T* a = u + steps[4 * step + 1] * s.elements + at;
                const T* factor = before[steps[4 * step + 2]];
                T* sum = power[steps[4 * step + 3]];
                VECTOR for (long e = 0; e < n; ++e) sum[e] += a[e] * factor[e];
            }
            for (long k = p; k < s.parts; ++k) {  // lower rows of a power vanish
                T *to = out + k * s.elements + at, *tilt = slope + k * s.elements + at;
                VECTOR for (long e = 0; e < n; ++e) to[e] += c[p][e] * power[k][e];
                if (slope) VECTOR for (long e = 0; e < n; ++e) tilt[e] += (p + 1) * c[p + 1][e] * power[k][e];
            }
            for (long k = 1; k < s.parts; ++k)
                VECTOR for (long e = 0; e < n; ++e) before[k][e] = power[k][e];
        }
    }
}

// One block of 1 - y y, the slope of y = tanh u. steps: (i, j, k) adds the product of rows i and j to row k.
template <typename T> void tanh_slope(const Shape& s, const T* y, const long* steps, long at, long n, Rows<T>& slope) {
    for (long k = 0; k < s.parts; ++k) {
        const T start = k ? T(0) : T(1);
        VECTOR for (long e = 0; e < n; ++e) slope[k][e] = start - y[at + e] * y[k * s.elements + at + e];
    }
    for (long step = 0; step < s.steps; ++step) {
        const T *a = y + steps[3 * step] * s.elements + at, *b = y + steps[3 * step + 1] * s.elements + at;
        T* to = slope[steps[3 * step + 2]];
        VECTOR for (long e = 0; e < n; ++e) to[e] -= a[e] * b[e];
    }
}

// steps: (i, j, k) adds the product of row i of the slope and row k of the incoming gradient to row j.
// is_tanh: the slope is not given, but the result of the function, which is tanh.
template <typename T>
void backward(const Shape& s, const T* given, const T* incoming, const long* steps, T* grad, bool is_tanh) {
    const long blocks = (s.elements + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(s.threads) if (s.threads > 1)
    for (long b = 0; b < blocks; ++b) {
        const long at = b * BLOCK, n = s.elements - at < BLOCK ? s.elements - at : BLOCK;
        Rows<T> made;
        if (is_tanh) tanh_slope<T>(s, given, steps, at, n, made);
        const T* slope = is_tanh ? made[0] : given + at;
        const long stride = is_tanh ? BLOCK : s.elements;
        for (long k = 0; k < s.parts; ++k) {
            const T* g = incoming + k * s.elements + at;
            T* to = grad + k * s.elements + at;
            VECTOR for (long e = 0; e < n; ++e) to[e] = slope[e] * g[e];
        }
        for (long step = 0; step < s.steps; ++step) {
            const T* a = slope + steps[3 * step] * stride;
            const T* g = incoming + steps[3 * step + 2] * s.elements + at;
            T* to = grad + steps[3 * step + 1] * s.elements + at;
            VECTOR for (long e = 0; e < n; ++e) to[e] += a[e] * g[e];
        }
    }
}

}  // namespace

#define EXPORT(T, NAME)                                                                                              \
    extern "C" void NAME##_forward(const Shape* s, const T* u, const T* const* c, const long* steps, T* out, T* slope) { \
        forward<T>(*s, u, c, steps, out, slope);                                                                     \
    }                                                                                                                \
    extern "C" void NAME##_backward(const Shape* s, const T* slope, const T* incoming, const long* steps, T* grad) {     \
        backward<T>(*s, slope, incoming, steps, grad, false);                                                        \
    }                                                                                                                \
    extern "C" void NAME##_tanh_backward(const Shape* s, const T* y, const T* incoming, const long* steps, T* grad) {    \
        backward<T>(*s, y, incoming, steps, grad, true);                                                             \
    }

EXPORT(float, float32)
EXPORT(double, float64)
