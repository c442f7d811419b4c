// `ce-time` is an RFC 3339 date-time with an offset and up to nine digits of a second's fraction. It is checked, never converted:
// it travels on as it was sent. The grammar has every field's range; what depends on the calendar is looked at after it.

const DATE_TIME =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/** Whether `text` is a moment that exists: days by the (proleptic) Gregorian calendar, a 60th second only at the end of a UTC month. */
export function isRfc3339(text: string): boolean {
  return DATE_TIME.test(text) && isInItsMonth(text) && (text[17] !== '6' || isAtMonthsEnd(text))
}

function isInItsMonth(text: string): boolean {
  const day = Number(text.slice(8, 10))
  return day <= 28 || day <= daysIn(Number(text.slice(0, 4)), Number(text.slice(5, 7)))
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

/** Leap seconds are inserted before midnight UTC of a month's first day, whatever the local offset calls that moment. */
function isAtMonthsEnd(text: string): boolean {
  const offset = /[+-]\d\d:\d\d$/.exec(text)?.[0] ?? 'Z'
  const next = new Date(Date.parse(`${text.slice(0, 10)}T${text.slice(11, 16)}:59${offset}`) + 1000)
  return next.getUTCDate() === 1 && next.getUTCHours() === 0 && next.getUTCMinutes() === 0
}
