/** Which of the variables for runners hold for one of them? Pure. */

type RunnerEnv = Readonly<{
  name: string;
  /** Labels of the runners it is for. */
  runners: Readonly<Record<string, string>>;
  env: Readonly<Record<string, string>>;
}>;

/** What holds for a runner with these labels. What asks for more labels counts more; among equals the later name. */
export function envFor(all: readonly RunnerEnv[], labels: Readonly<Record<string, string>>): Record<string, string> {
  const fitting = all.filter(({ runners }) =>
    Object.entries(runners).every(([label, value]) => labels[label] === value),
  );
  const weight = ({ runners }: Pick<RunnerEnv, 'runners'>): number => Object.keys(runners).length;
  const ranked = fitting.toSorted((a, b) => weight(a) - weight(b) || (a.name < b.name ? -1 : 1));
  return Object.assign({}, ...ranked.map(({ env }) => env));
}
