/** Which Pythons does Poetry mean by `^3.9`, `>=3.8,<3.11 || 4.0`? */

/** As markers, as pip reads them; undefined for what is none of these, or means any. */
export function pythonMarkers(range: string): string | undefined {
  const ways = range.split('||').map((way) => wayOf(way.replaceAll(/([<>=!~^])\s+/g, '$1').trim()));
  if (ways.some((way) => way === undefined)) return undefined;
  return ways.length === 1 ? ways[0] : ways.map((way) => `(${way})`).join(' or ');
}

function wayOf(way: string): string | undefined {
  const bounds = way.split(/[,\s]+/).map(boundOf);
  return bounds.includes(undefined) ? undefined : bounds.join(' and ');
}

function boundOf(text: string): string | undefined {
  const [, sign = '', version = '', series] = /^(\^|~=?|[<>]=?|[=!]=|=?)(\d+(?:\.\d+){0,2})(\.\*)?$/.exec(text) ?? [];
  const [major = '', minor] = version.split('.');
  const is = (operator: string, than: string): string => `python_full_version ${operator} '${than}'`;
  if (major === '') return undefined;
  if (sign === '^') return `${is('>=', version)} and ${is('==', `${major}.*`)}`;
  if (sign.startsWith('~'))
    return `${is('>=', version)} and ${is('==', minor === undefined ? `${major}.*` : `${major}.${minor}.*`)}`;
  if (sign !== '' && sign !== '=' && sign !== '==' && sign !== '!=') return is(sign, version);
  const isWhole = series === undefined && version.split('.').length === 3;
  return is(sign === '!=' ? '!=' : '==', isWhole ? version : `${version}.*`);
}
