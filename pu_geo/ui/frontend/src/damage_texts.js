// Every word of the damage map that people read in the component.

const number = (n) => n.toLocaleString("en");
const buildings = (n) => `${number(n)} ${n === 1 ? "building" : "buildings"}`;
const share = (part, whole) => {
  if (!whole) return "0 %";
  const percent = (100 * part) / whole;
  return `${percent.toFixed(percent < 10 && percent !== Math.round(percent) ? 1 : 0)} %`;
};

export const DAMAGE_TEXTS = {
  number,
  colorBy: "Color the map by",
  colors: [
    ["category", "Category", "Confirmed, flagged, not flagged, not assessed (P)"],
    ["scores", "Rank", "Place of each building in the ranking of this run (P)"],
    ["uncertainty", "Uncertainty", "How near a building is to the threshold, counted in places of the ranking (P)"],
  ],
  categories: ["Confirmed by a person", "Flagged by score", "Not flagged", "Not assessed"],
  notDamaged: (n) => `${number(n)} of them answered not damaged`,
  why: (reasons) => reasons.join(", "),
  cells: (side) => `Confirmed or flagged in each cell of ${side}`,
  cellNone: "none",
  cellUnknown: "none assessed",
  rank: "Rank",
  rankEnds: ["lowest", "highest"],
  uncertainty: "Distance from the threshold",
  uncertaintyNote: "In places of the ranking. Not a probability.",
  within: (percent) => `within ${percent} % of the ranking`,
  beyond: (percent) => `more than ${percent} %`,
  answered: ["Answered: damaged", "Answered: not damaged"],
  outlinesHidden: "Outlines hidden (press Space)",

  sliderName: "How many of the highest-ranked buildings are flagged",
  flagged: (n, open) => `Flag the ${number(n)} highest-ranked of ${number(open)} not reviewed (${share(n, open)})`,
  threshold: (value) => `threshold ${value.toFixed(4)}`,
  ties: (n) => `${number(n)} have this very score`,
  nothingOpen: "Every building is reviewed or not assessed: nothing is left to flag.",
  saving: "saving …",
  saved: "saved",
  profile: "Bars: score, from the highest rank (left) to the lowest. Marks below: answers at their rank, damaged in orange, not damaged in blue.",
  top: (n, open) => `top ${share(n, open)}`,
  all: "all",
  buildings,
};
