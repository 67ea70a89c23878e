/* sin and cos as the page's MuJoCo has them: WebAssembly uses musl, which uses the polynomials of
 * FreeBSD's msun, (c) 1993 Sun Microsystems: "Permission to use, copy, modify, and distribute this
 * software is freely granted, provided that this notice is preserved."
 * Preloaded into Python, they replace those of the machine in MuJoCo's C library.
 * The reduction to a quarter turn is exact enough for the angles of joints, not for huge ones. */

static double sine(double x, double rest) {
  double z = x * x, w = z * z, v = z * x;
  double r = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06)
           + z * w * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
  const double third = -1.66666666666666324348e-01;
  return rest == 0 ? x + v * (third + z * r) : x - ((z * (0.5 * rest - v * r) - rest) - v * third);
}

static double cosine(double x, double rest) {
  double z = x * x, w = z * z, half = 0.5 * z, one = 1.0 - half;
  double r = z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05))
           + w * w * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
  return one + (((1.0 - one) - half) + (z * r - x * rest));
}

/* The sine of x plus a number of quarter turns. */
static double turned(double x, int quarters) {
  const __float128 quarter = 1.57079632679489661923132169163975144Q;
  double high = x, rest = 0;
  if (!(x >= -0.7853981633974483 && x <= 0.7853981633974483)) {
    long turns = __builtin_lrint(x / (double)quarter);
    __float128 exact = x - turns * quarter;
    high = (double)exact;
    rest = (double)(exact - high);
    quarters += (int)(turns & 3);
  }
  double value = quarters & 1 ? cosine(high, rest) : sine(high, rest);
  return quarters & 2 ? -value : value;
}

double sin(double x) { return turned(x, 0); }
double cos(double x) { return turned(x, 1); }
