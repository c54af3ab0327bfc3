/** The images that integration suites run on, built as `npm run up` builds them and named to tests by variables. */
import { ensureEngine } from '@flynn/bootstrap/engine';
import { ensureImages } from '@flynn/bootstrap/images/build';
import { imageNames, testImageNames } from '@flynn/bootstrap/images/recipes';

export async function ensureTestImages(): Promise<Record<string, string>> {
  await ensureEngine();
  const images = await ensureImages({ names: [...imageNames, ...testImageNames] });
  return Object.fromEntries(
    [...images].map(([name, tag]) => [`FLYNN_TEST_${name.toUpperCase().replaceAll('-', '_')}_IMAGE`, tag]),
  );
}
