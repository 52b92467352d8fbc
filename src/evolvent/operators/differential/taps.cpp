// Sums over the taps of stencils whose coefficients differ from pixel to pixel; see taps.py for the mathematics.
//
// One task is one orientation g of one group m of fields in one sample b. Its planes are copied into buffers whose rows
// are as wide as the padded image, so that a tap is one offset for all pixels, and pixels go through in vectors.

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace {

constexpr int LANES = 16;

template <typename T> struct Vec;
template <> struct Vec<float> { typedef float type __attribute__((vector_size(LANES * 4), aligned(4), may_alias)); };
template <> struct Vec<double> { typedef double type __attribute__((vector_size(LANES * 8), aligned(8), may_alias)); };

template <typename T> using vec = typename Vec<T>::type;
template <typename T> inline vec<T> load(const T* p) { return *reinterpret_cast<const vec<T>*>(p); }
template <typename T> inline void store(T* p, vec<T> v) { *reinterpret_cast<vec<T>*>(p) = v; }

struct Sizes {
    long batch, groups, derivatives, orientations, partitions, height, width, pad, threads;
};

template <typename T, int K> struct Plane {
    const Sizes& n;
    long tall, wide;    // of the padded image
    long rows, columns; // of the answer
    long area;          // of the answer, in rows as wide as the padded image, rounded up to vectors
    long margin;        // zeros before and after, which taps may reach
    long stride;        // from one padded plane to the next

    explicit Plane(const Sizes& n) : n(n) {
        tall = n.height + 2 * n.pad, wide = n.width + 2 * n.pad;
        rows = tall - K + 1, columns = wide - K + 1;
        area = (rows * wide + LANES - 1) / LANES * LANES;
        margin = (K - 1) * (wide + 1) + LANES;
        stride = tall * wide + 2 * margin + LANES;
    }
    long tap(int t) const { return (t / K) * wide + t % K; }

    void gather_answer_planes(const T* from, long planes, long step, T* to) const {
        std::memset(to, 0, planes * area * sizeof(T));
        for (long p = 0; p < planes; ++p)
            for (long y = 0; y < rows; ++y)
                std::memcpy(to + p * area + y * wide, from + p * step + y * columns, columns * sizeof(T));
    }
    void scatter_answer_plane(const T* from, T* to) const {
        for (long y = 0; y < rows; ++y) std::memcpy(to + y * columns, from + y * wide, columns * sizeof(T));
    }
    void gather_image(const T* from, T* to) const {
        std::memset(to, 0, stride * sizeof(T));
        T* start = to + margin + n.pad * wide + n.pad;
        for (long y = 0; y < n.height; ++y)
            std::memcpy(start + y * wide, from + y * n.width, n.width * sizeof(T));
    }
    // the answer's pixels at their place in a padded plane, the rest zero
    void gather_answer(const T* from, T* to) const {
        std::memset(to, 0, stride * sizeof(T));
        for (long y = 0; y < rows; ++y)
            std::memcpy(to + margin + y * wide, from + y * columns, columns * sizeof(T));
    }
    void scatter_image(const T* from, T* to) const {
        const T* start = from + margin + n.pad * wide + n.pad;
        for (long y = 0; y < n.height; ++y)
            std::memcpy(to + y * n.width, start + y * wide, n.width * sizeof(T));
    }
};

// weights of all taps for one vector of pixels
template <typename T, int K>
inline void tap_weights(const T* a, long area, const T* stencils, long derivatives, long x, vec<T>* weights) {
    for (int row = 0; row < K; ++row) {
        vec<T> sums[K] = {};
        for (long d = 0; d < derivatives; ++d) {
            const vec<T> value = load(a + d * area + x);
            for (int t = 0; t < K; ++t) sums[t] += stencils[d * K * K + row * K + t] * value;
        }
        for (int t = 0; t < K; ++t) weights[row * K + t] = sums[t];
    }
}

template <typename T> struct Task {
    long batch, group, orientation;
    Task(long i, const Sizes& n)
        : batch(i % n.batch), group(i / n.batch / n.orientations), orientation(i / n.batch % n.orientations) {}
    // planes are counted by channel, then by sample
    long coefficient_plane(const Sizes& n) const {
        return (group * n.derivatives * n.orientations + orientation) * n.batch + batch;
    }
    long field_plane(const Sizes& n, long p) const {
        return ((p * n.groups + group) * n.orientations + orientation) * n.batch + batch;
    }
};

// partitions in bundles of 8, 4 and 1, whose sums share a loaded coefficient
template <typename Do> inline void in_bundles(long partitions, Do&& sum) {
    long p = 0;
    for (; p + 8 <= partitions; p += 8) sum(p, std::integral_constant<int, 8>());
    for (; p + 4 <= partitions; p += 4) sum(p, std::integral_constant<int, 4>());
    for (; p < partitions; ++p) sum(p, std::integral_constant<int, 1>());
}

template <typename T, int K>
void forward(const T* coefficients, const T* image, const T* stencils, T* answer, const Sizes& n) {
    const Plane<T, K> plane(n);
    const long pixels = plane.rows * plane.columns, tasks = n.batch * n.groups * n.orientations;
#pragma omp parallel num_threads(n.threads)
    {
        std::vector<T> a(n.derivatives * plane.area), u(n.partitions * plane.stride), out(n.partitions * plane.area);
#pragma omp for schedule(static)
        for (long i = 0; i < tasks; ++i) {
            const Task<T> task(i, n);
            const T* s = stencils + task.orientation * n.derivatives * K * K;
            plane.gather_answer_planes(
                coefficients + task.coefficient_plane(n) * pixels, n.derivatives, n.orientations * n.batch * pixels,
                a.data());
            for (long p = 0; p < n.partitions; ++p)
                plane.gather_image(image + task.field_plane(n, p) * n.height * n.width, &u[p * plane.stride]);
            for (long x = 0; x < plane.area; x += LANES) {
                vec<T> weights[K * K];
                tap_weights<T, K>(a.data(), plane.area, s, n.derivatives, x, weights);
                in_bundles(n.partitions, [&](long p, auto bundle) {
                    vec<T> sums[bundle()] = {};
                    const T* from = &u[p * plane.stride] + plane.margin + x;
                    for (int t = 0; t < K * K; ++t)
                        for (int q = 0; q < bundle(); ++q)
                            sums[q] += weights[t] * load(from + q * plane.stride + plane.tap(t));
                    for (int q = 0; q < bundle(); ++q) store(&out[(p + q) * plane.area + x], sums[q]);
                });
            }
            for (long p = 0; p < n.partitions; ++p)
                plane.scatter_answer_plane(&out[p * plane.area], answer + task.field_plane(n, p) * pixels);
        }
    }
}

// gradients of the coefficients for one vector of pixels
template <typename T, int K>
inline void coefficient_gradient(const Plane<T, K>& plane, const T* u, const T* g, const T* s, long x, T* out) {
    const Sizes& n = plane.n;
    vec<T> of_taps[K * K] = {};
    for (long p = 0; p < n.partitions; ++p) {
        const vec<T> value = load(g + p * plane.stride + plane.margin + x);
        const T* from = u + p * plane.stride + plane.margin + x;
        for (int t = 0; t < K * K; ++t) of_taps[t] += value * load(from + plane.tap(t));
    }
    for (long d = 0; d < n.derivatives; ++d) {
        vec<T> sum = {};
        for (int t = 0; t < K * K; ++t) sum += s[d * K * K + t] * of_taps[t];
        store(out + d * plane.area + x, sum);
    }
}

template <typename T, int K>
void backward(const T* coefficients, const T* image, const T* stencils, const T* gradient, T* to_coefficients,
              T* to_image, const Sizes& n) {
    const Plane<T, K> plane(n);
    const long pixels = plane.rows * plane.columns, tasks = n.batch * n.groups * n.orientations;
    const long reach = plane.area + 2 * plane.margin;
#pragma omp parallel num_threads(n.threads)
    {
        std::vector<T> a(n.derivatives * plane.area), u(n.partitions * plane.stride), g(n.partitions * plane.stride);
        std::vector<T> weights(K * K * reach), back(n.partitions * plane.stride + LANES);
#pragma omp for schedule(static)
        for (long i = 0; i < tasks; ++i) {
            const Task<T> task(i, n);
            const T* s = stencils + task.orientation * n.derivatives * K * K;
            const long mine = task.coefficient_plane(n) * pixels, step = n.orientations * n.batch * pixels;
            plane.gather_answer_planes(coefficients + mine, n.derivatives, step, a.data());
            for (long p = 0; p < n.partitions; ++p) {
                plane.gather_image(image + task.field_plane(n, p) * n.height * n.width, &u[p * plane.stride]);
                plane.gather_answer(gradient + task.field_plane(n, p) * pixels, &g[p * plane.stride]);
            }
            for (long x = 0; x < plane.area; x += LANES) {
                vec<T> here[K * K];
                tap_weights<T, K>(a.data(), plane.area, s, n.derivatives, x, here);
                for (int t = 0; t < K * K; ++t) store(&weights[t * reach + plane.margin + x], here[t]);
            }
            for (long x = 0; x < plane.area; x += LANES)  // the coefficients are not needed any more
                coefficient_gradient<T, K>(plane, u.data(), g.data(), s, x, a.data());
            for (long d = 0; d < n.derivatives; ++d)
                plane.scatter_answer_plane(&a[d * plane.area], to_coefficients + mine + d * step);
            const long size = plane.tall * plane.wide;
            in_bundles(n.partitions, [&](long p, auto bundle) {
                for (long x = 0; x < size; x += LANES) {
                    vec<T> sums[bundle()] = {};
                    for (int t = 0; t < K * K; ++t) {
                        const long from = plane.margin + x - plane.tap(t);
                        const vec<T> weight = load(&weights[t * reach + from]);
                        for (int q = 0; q < bundle(); ++q)
                            sums[q] += weight * load(&g[(p + q) * plane.stride + from]);
                    }
                    for (int q = 0; q < bundle(); ++q) store(&back[(p + q) * plane.stride + plane.margin + x], sums[q]);
                }
                for (int q = 0; q < bundle(); ++q)
                    plane.scatter_image(
                        &back[(p + q) * plane.stride], to_image + task.field_plane(n, p + q) * n.height * n.width);
            });
        }
    }
}

}  // namespace

#define ENTRY(NAME, T, K)                                                                                             \
    extern "C" void NAME##_forward_##K(const T* a, const T* u, const T* s, T* out, const long* sizes) {               \
        forward<T, K>(a, u, s, out, *reinterpret_cast<const Sizes*>(sizes));                                          \
    }                                                                                                                 \
    extern "C" void NAME##_backward_##K(                                                                              \
        const T* a, const T* u, const T* s, const T* g, T* to_a, T* to_u, const long* sizes) {                        \
        backward<T, K>(a, u, s, g, to_a, to_u, *reinterpret_cast<const Sizes*>(sizes));                               \
    }
#define ENTRIES(K) ENTRY(float32, float, K) ENTRY(float64, double, K)
ENTRIES(1)
ENTRIES(3)
ENTRIES(5)
ENTRIES(7)
