// The limit, by hand, one OpenMP region a step: Position Based Dynamics in AVX2, eight constraints at a time;
// Projective Dynamics on springs, eight particles of one color at a time, or sixteen by AVX-512 gathers.
// Built by bench/limit.py: -O3 -march=native -ffast-math -fopenmp
#include <immintrin.h>
#include <math.h>
#include <omp.h>

typedef __m256 f8;
struct Rows { f8 x, y, z, w; };      // eight particles
struct Vector { f8 x, y, z; };

struct Group {
  int kind;                          // 0 stretch, 1 volume, 2 bend
  int batches;
  const int* offsets;                // first block of each batch, batches + 1; blocks are whole
  const int* vertices;
  const float* rest;
  float ratio;
};

struct Work {
  int particles, groups, iterations;
  float step, kept, gravity;
  float *positions, *predicted, *velocities;   // rows x, y, z, inverse mass
  const Group* group;
};

static inline f8 all(float v) { return _mm256_set1_ps(v); }
static inline f8 pair(const float* p, int a, int b) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(p + 4 * a)), _mm_load_ps(p + 4 * b), 1);
}
static inline void transpose(f8& a, f8& b, f8& c, f8& d) {
  f8 t0 = _mm256_unpacklo_ps(a, b), t1 = _mm256_unpackhi_ps(a, b), t2 = _mm256_unpacklo_ps(c, d), t3 = _mm256_unpackhi_ps(c, d);
  a = _mm256_shuffle_ps(t0, t2, 0x44); b = _mm256_shuffle_ps(t0, t2, 0xee);
  c = _mm256_shuffle_ps(t1, t3, 0x44); d = _mm256_shuffle_ps(t1, t3, 0xee);
}
static inline Rows load(const float* p, const int* i, int s) {
  f8 a = pair(p, i[0], i[4 * s]), b = pair(p, i[s], i[5 * s]), c = pair(p, i[2 * s], i[6 * s]), d = pair(p, i[3 * s], i[7 * s]);
  transpose(a, b, c, d);
  return {a, b, c, d};
}
static inline void put(float* p, int a, int b, f8 v) {
  _mm_store_ps(p + 4 * a, _mm256_castps256_ps128(v)); _mm_store_ps(p + 4 * b, _mm256_extractf128_ps(v, 1));
}
static inline void store(float* p, const int* i, int s, Rows v) {
  transpose(v.x, v.y, v.z, v.w);
  put(p, i[0], i[4 * s], v.x); put(p, i[s], i[5 * s], v.y); put(p, i[2 * s], i[6 * s], v.z); put(p, i[3 * s], i[7 * s], v.w);
}
static inline Vector sub(Rows a, Rows b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
static inline f8 dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline Vector cross(Vector a, Vector b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
static inline Vector mix(f8 s, Vector a, f8 t, Vector b) { return {s * a.x + t * b.x, s * a.y + t * b.y, s * a.z + t * b.z}; }
static inline void move(Rows& p, Vector g, f8 s) { s *= p.w; p.x += s * g.x; p.y += s * g.y; p.z += s * g.z; }
static inline f8 gt(f8 a, f8 b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
static inline f8 pick(f8 mask, f8 a, f8 b) { return _mm256_blendv_ps(b, a, mask); }

static inline f8 atan2_8(f8 y, f8 x) {
  f8 sign = all(-0.f), ax = _mm256_andnot_ps(sign, x), ay = _mm256_andnot_ps(sign, y), lo = _mm256_min_ps(ax, ay), hi = _mm256_max_ps(ax, ay);
  f8 folded = gt(lo, all(0.41421356f) * hi), d = pick(folded, lo + hi, hi);
  f8 t = pick(folded, lo - hi, lo) / pick(gt(d, all(0)), d, all(1)), s = t * t;
  f8 a = (((8.05374449538e-2f * s - 1.38776856032e-1f) * s + 1.99777106478e-1f) * s - 3.33329491539e-1f) * s * t + t;
  a += pick(folded, all(0.78539816f), all(0)); a = pick(gt(ay, ax), 1.57079633f - a, a); a = pick(x, 3.14159265f - a, a);
  return _mm256_xor_ps(a, _mm256_and_ps(y, sign));
}

static inline void stretch(float* p, const int* v, const float* rest, f8 k) {
  Rows a = load(p, v, 2), b = load(p, v + 1, 2);
  Vector e = sub(a, b);
  f8 length = _mm256_sqrt_ps(dot(e, e)), s = k * (length - _mm256_loadu_ps(rest)) / (length * (a.w + b.w) + 1e-12f);
  move(a, e, -s); move(b, e, s);
  store(p, v, 2, a); store(p, v + 1, 2, b);
}
static inline void volume(float* p, const int* v, const float* rest, f8 k) {
  Rows a = load(p, v, 4), b = load(p, v + 1, 4), c = load(p, v + 2, 4), d = load(p, v + 3, 4);
  Vector u = sub(b, a), w = sub(c, a), t = sub(d, a), gb = cross(w, t), gc = cross(t, u), gd = cross(u, w);
  Vector ga = {-(gb.x + gc.x + gd.x), -(gb.y + gc.y + gd.y), -(gb.z + gc.z + gd.z)};
  f8 weight = a.w * dot(ga, ga) + b.w * dot(gb, gb) + c.w * dot(gc, gc) + d.w * dot(gd, gd);
  f8 s = k * (6.f * _mm256_loadu_ps(rest) - dot(gd, t)) / (weight + 1e-20f);
  move(a, ga, s); move(b, gb, s); move(c, gc, s); move(d, gd, s);
  store(p, v, 4, a); store(p, v + 1, 4, b); store(p, v + 2, 4, c); store(p, v + 3, 4, d);
}
static inline void bend(float* p, const int* v, const float* rest, f8 k) {
  Rows a = load(p, v, 4), b = load(p, v + 1, 4), c = load(p, v + 2, 4), d = load(p, v + 3, 4);
  Vector e = sub(b, a), w3 = sub(c, a), w4 = sub(d, a), n1 = cross(e, w3), n2 = cross(w4, e);
  f8 squared = dot(e, e), a1 = dot(n1, n1), a2 = dot(n2, n2), length = _mm256_sqrt_ps(squared), tiny = all(1e-30f);
  f8 valid = _mm256_and_ps(gt(a1, tiny), gt(a2, tiny));
  f8 s1 = _mm256_and_ps(valid, length / a1), s2 = _mm256_and_ps(valid, length / a2), inverse = _mm256_and_ps(valid, 1.f / squared);
  Vector m1 = {s1 * n1.x, s1 * n1.y, s1 * n1.z}, m2 = {s2 * n2.x, s2 * n2.y, s2 * n2.z};
  f8 f3 = dot(w3, e) * inverse, f4 = dot(w4, e) * inverse;
  Vector g1 = mix(f3 - 1.f, m1, f4 - 1.f, m2), g2 = mix(-f3, m1, -f4, m2);
  f8 value = _mm256_and_ps(valid, atan2_8(dot(cross(n2, n1), e), length * dot(n1, n2)) - _mm256_loadu_ps(rest));
  f8 weight = a.w * dot(g1, g1) + b.w * dot(g2, g2) + c.w * dot(m1, m1) + d.w * dot(m2, m2);
  f8 s = _mm256_and_ps(gt(weight, all(0)), -k * value / weight);
  move(a, g1, s); move(b, g2, s); move(c, m1, s); move(d, m2, s);
  store(p, v, 4, a); store(p, v + 1, 4, b); store(p, v + 2, 4, c); store(p, v + 3, 4, d);
}

extern "C" void limit_threads(int n) { omp_set_num_threads(n); }

extern "C" void limit_step(const Work* work) {
#pragma omp parallel
  {
    const float h = work->step;
    float *p = work->predicted, *x = work->positions, *v = work->velocities;
    const __m128 zero = _mm_setzero_ps(), step = _mm_set1_ps(h), rate = _mm_set1_ps(1 / h), kept = _mm_set1_ps(work->kept);
    const __m128 impulse = _mm_setr_ps(0, work->gravity * h, 0, 0);
#pragma omp for schedule(static)
    for (int i = 0; i < work->particles; i++) {
      __m128 here = _mm_load_ps(x + 4 * i), free = _mm_cmpgt_ps(_mm_permute_ps(here, 0xff), zero);
      _mm_store_ps(p + 4 * i, here + _mm_and_ps(free, step * (kept * _mm_load_ps(v + 4 * i) + impulse)));
    }
    for (int iteration = 0; iteration < work->iterations; iteration++)
      for (int g = 0; g < work->groups; g++) {
        const Group group = work->group[g];
        const f8 k = all(group.ratio);
        for (int batch = 0; batch < group.batches; batch++) {
          const int first = group.offsets[batch], last = group.offsets[batch + 1];
          if (group.kind == 0) {
#pragma omp for schedule(static)
            for (int b = first; b < last; b++) stretch(p, group.vertices + 16 * b, group.rest + 8 * b, k);
          } else if (group.kind == 1) {
#pragma omp for schedule(static)
            for (int b = first; b < last; b++) volume(p, group.vertices + 32 * b, group.rest + 8 * b, k);
          } else {
#pragma omp for schedule(static)
            for (int b = first; b < last; b++) bend(p, group.vertices + 32 * b, group.rest + 8 * b, k);
          }
        }
      }
#pragma omp for schedule(static)
    for (int i = 0; i < work->particles; i++) {
      __m128 there = _mm_load_ps(p + 4 * i);
      _mm_store_ps(v + 4 * i, (there - _mm_load_ps(x + 4 * i)) * rate);
      _mm_store_ps(x + 4 * i, there);
    }
  }
}

// Projective Dynamics: particles are renumbered by color and filled up to whole blocks, their lists lie side by side.
struct Visits {
  int colors, iterations, particles;
  float stiffness;
  const int* blocks;                 // first block of each color, colors + 1
  const int* slots;                  // first slot of each block, blocks + 1
  const int* neighbors;              // of each lane of a slot; the particle itself where it has no more
  const float* rest;                 // 0 there
  const float* inertia;              // m / h^2, 0 where pinned
  const float* share;                // omega / (m / h^2 + sum of stiffness), 0 where pinned
  const float* aims;
  float* positions;
};

// Positions as columns x, y, z, as wide as the processor's gather instruction.
struct Gathers {
#ifdef __AVX512F__
  typedef __m512 Lanes;
  static Lanes read(const float* p) { return _mm512_load_ps(p); }
  static void write(float* p, Lanes v) { _mm512_store_ps(p, v); }
  static Lanes gather(const float* p, const int* i) { return _mm512_i32gather_ps(_mm512_load_si512(i), p, 4); }
  static Lanes root(Lanes v) { return _mm512_sqrt_ps(v); }
#else
  typedef f8 Lanes;
  static Lanes read(const float* p) { return _mm256_load_ps(p); }
  static void write(float* p, Lanes v) { _mm256_store_ps(p, v); }
  static Lanes gather(const float* p, const int* i) { return _mm256_i32gather_ps(p, _mm256_load_si256((const __m256i*)i), 4); }
  static Lanes root(Lanes v) { return _mm256_sqrt_ps(v); }
#endif
  enum { WIDTH = sizeof(Lanes) / sizeof(float) };
  struct Particles { Lanes x, y, z; };
  static Particles block(const float* p, int n, int b) { p += WIDTH * b; return {read(p), read(p + n), read(p + 2 * n)}; }
  static Particles listed(const float* p, int n, const int* i) { return {gather(p, i), gather(p + n, i), gather(p + 2 * n, i)}; }
  static void put(float* p, int n, int b, Particles v) { p += WIDTH * b; write(p, v.x); write(p + n, v.y); write(p + 2 * n, v.z); }
};

// Positions as rows x, y, z, inverse mass.
static const int OWN[8] = {0, 1, 2, 3, 4, 5, 6, 7};
struct ByRows {
  typedef f8 Lanes;
  enum { WIDTH = 8 };
  typedef Rows Particles;
  static Lanes read(const float* p) { return _mm256_load_ps(p); }
  static Lanes root(Lanes v) { return _mm256_sqrt_ps(v); }
  static Particles block(const float* p, int, int b) { return load(p + 32 * b, OWN, 1); }
  static Particles listed(const float* p, int, const int* i) { return load(p, i, 1); }
  static void put(float* p, int, int b, Particles v) { store(p + 32 * b, OWN, 1, v); }
};

template <class By> static inline void visit(const Visits& work, int b) {
  typedef typename By::Lanes Lanes;
  const int n = work.particles;
  typename By::Particles here = By::block(work.positions, n, b), aim = By::block(work.aims, n, b);
  Lanes x = {}, y = {}, z = {};
  for (int slot = work.slots[b]; slot < work.slots[b + 1]; slot++) {
    const typename By::Particles there = By::listed(work.positions, n, work.neighbors + By::WIDTH * slot);
    const Lanes dx = here.x - there.x, dy = here.y - there.y, dz = here.z - there.z;
    const Lanes longer = By::read(work.rest + By::WIDTH * slot) / By::root(dx * dx + dy * dy + dz * dz + 1e-20f) - 1.f;
    x += longer * dx; y += longer * dy; z += longer * dz;
  }
  const Lanes inertia = By::read(work.inertia + By::WIDTH * b), share = By::read(work.share + By::WIDTH * b);
  here.x += share * (inertia * (aim.x - here.x) + work.stiffness * x);
  here.y += share * (inertia * (aim.y - here.y) + work.stiffness * y);
  here.z += share * (inertia * (aim.z - here.z) + work.stiffness * z);
  By::put(work.positions, n, b, here);
}

template <class By> static void relax(const Visits* work) {
#pragma omp parallel
  for (int iteration = 0; iteration < work->iterations; iteration++)
    for (int color = 0; color < work->colors; color++) {
#pragma omp for schedule(static)
      for (int b = work->blocks[color]; b < work->blocks[color + 1]; b++) visit<By>(*work, b);
    }
}

extern "C" int limit_lanes() { return Gathers::WIDTH; }
extern "C" void limit_visits_by_gathers(const Visits* work) { relax<Gathers>(work); }
extern "C" void limit_visits_by_rows(const Visits* work) { relax<ByRows>(work); }
